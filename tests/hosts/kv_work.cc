// kv_work FILE NUMBER: a client of this host's store, at work (kv_writer.h) until its standard input ends. It says how
// much it has done, a line after each hundredth; and at the end how long the longest call took, how many gets failed,
// and whether what was acknowledged is there.
#include <atomic>
#include <iostream>
#include <string>
#include <thread>

#include "tests/support/kv_writer.h"

int main(int /*count*/, char** arguments) {
  using namespace std::chrono_literals;
  farside::test::KvWriter writer(static_cast<unsigned>(std::stoul(arguments[2])), arguments[1], 20s);
  std::atomic<bool> over = false;
  std::jthread waiting([&over] {
    std::string line;
    while (std::getline(std::cin, line)) continue;
    over = true;
  });
  std::uint64_t said = 0;
  for (std::uint64_t round = 0; !over; ++round) {
    writer.act(round);
    if (const std::uint64_t hundreds = writer.done() / 100; hundreds > said) {
      said = hundreds;
      std::cout << writer.done() << std::endl;
    }
  }
  const bool all_there = writer.sees_what_was_acknowledged();
  std::cout << "longest " << writer.longest_wait().count() << " ms, failed gets " << writer.failed_gets() << ", "
            << (all_there ? "all there" : "something is missing") << std::endl;
  return all_there ? 0 : 1;
}
