// The Redis protocol in front of keys in memory, until its standard input ends. Prints where it listens.
//
//   memory_server [THREADS [PASSWORD]]
#include <cstdlib>
#include <iostream>
#include <string>

#include "kv/resp/resp_server.h"
#include "tests/kv/resp/memory_session.h"

int main(int argc, char** argv) {
  using namespace farside;
  test::MemoryKeys keys;
  const std::size_t threads = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1;
  const kv::RespServer server({"127.0.0.1:0"}, {.password = argc > 2 ? argv[2] : ""}, threads,
                              [&keys] { return std::make_unique<test::MemorySession>(keys); });
  std::cout << server.listeners().front().address() << std::endl;
  std::string line;
  while (std::getline(std::cin, line)) {
  }
  return 0;
}
