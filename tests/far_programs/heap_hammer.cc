// A program with a far heap on a pool, which looks at its memory as hammer.cc does. It ends with 0 when it found every
// byte as it left it, and with 1 and a line when not, or when it cannot have the heap.
//
//   heap_hammer --local SIZE [--far SIZE] [--mirror | --trust-nodes] [--for-system-calls] DEED
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <map>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "farside/base/error.h"
#include "farside/base/fd.h"
#include "farside/base/units.h"
#include "farside/far/heap.h"
#include "farside/far/pool.h"

namespace {

namespace far = farside::far;

constexpr std::size_t kPage = 4096;
constexpr std::size_t kWords = kPage / sizeof(std::uint64_t);  // of a page
constexpr std::size_t kPages = 12288;                          // 48 MiB: several times the budget of the tests

using Words = far::far_vector<std::uint64_t>;

void require(bool right, const char* what) {
  if (!right) throw std::runtime_error(what);
}

std::uint64_t value(std::size_t word, std::uint64_t version) { return (word + 1) * 0x9e3779b97f4a7c15U ^ version; }

// Words of each page that lie in several of its lines.
template <class Do>
void for_each_word(Words& words, Do&& act) {
  for (std::size_t page = 0; page < words.size(); page += kWords) {
    for (const std::size_t word : {page, page + kWords / 2, page + kWords - 1}) act(words[word], word);
  }
}

void write_all(Words& words, std::uint64_t version) {
  for_each_word(words, [version](std::uint64_t& one, std::size_t word) { one = value(word, version); });
}

void check_all(Words& words, std::uint64_t version) {
  for_each_word(words, [version](std::uint64_t one, std::size_t word) {
    require(one == value(word, version), "a byte is wrong");
  });
}

void for_ever(far::Heap& heap) {
  Words words(kPages * kWords, heap);
  write_all(words, 0);
  std::puts("ready");
  for (std::uint64_t version = 1;; ++version) {
    std::fflush(stdout);
    check_all(words, version - 1);
    write_all(words, version);
    std::puts("right");
  }
}

// Sorted in the heap and beside it.
void sorts(far::Heap& heap) {
  std::mt19937_64 random(1);  // NOLINT(cert-msc51-cpp): the same every time
  std::vector<std::uint64_t> numbers(kPages / 2 * kWords);
  std::ranges::generate(numbers, random);
  Words far_numbers(numbers.begin(), numbers.end(), heap);
  std::ranges::sort(far_numbers);
  std::ranges::sort(numbers);
  require(std::ranges::equal(numbers, far_numbers), "it is not sorted");
}

// Each adds to words of its own in pages of all, and knows what must be there.
void threads(far::Heap& heap) {
  constexpr std::size_t kSteps = 4000;
  Words words(kPages * kWords, heap);
  std::vector<std::thread> all;
  std::atomic<bool> right{true};
  for (std::size_t self = 0; self < 4; ++self) {
    all.emplace_back([&words, &right, self] {
      std::vector<std::uint64_t> sums(kPages);
      std::mt19937_64 random(self);
      for (std::size_t step = 0; step < kSteps; ++step) {
        const std::size_t page = random() % kPages;
        words[page * kWords + self] += step;
        sums[page] += step;
      }
      for (std::size_t page = 0; page < kPages; ++page) {
        if (words[page * kWords + self] != sums[page]) right = false;
      }
    });
  }
  for (std::thread& thread : all) thread.join();
  require(right, "a write was lost");
}

// The kernel reads and writes the heap as the program does.
void system_calls(far::Heap& heap) {
  Words words(kPages * kWords, heap);
  write_all(words, 1);
  const farside::Fd file = farside::make_memfd("file", kPages * kPage);
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(words.data(), words.size()));
  const auto carry = [&](auto&& call) {
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t now = call(bytes.subspan(done, std::min<std::size_t>(bytes.size() - done, 1'999'999)), done);
      require(now > 0, "a system call failed");
      done += static_cast<std::size_t>(now);
    }
  };
  carry([&](auto part, std::size_t at) {
    return ::pwrite(file.get(), part.data(), part.size(), static_cast<off_t>(at));
  });
  write_all(words, 2);
  carry(
      [&](auto part, std::size_t at) { return ::pread(file.get(), part.data(), part.size(), static_cast<off_t>(at)); });
  check_all(words, 1);
}

const std::map<std::string, void (*)(far::Heap&)> kDeeds = {
    {"for_ever", for_ever}, {"sorts", sorts}, {"system_calls", system_calls}, {"threads", threads}};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("A program with a far heap");
  std::string local;
  std::string far_size = "64M";
  std::string deed;
  bool mirror = false;
  bool trust_nodes = false;
  bool for_system_calls = false;
  app.add_option("--local", local)->required()->take_last();
  app.add_option("--far", far_size);
  app.add_flag("--mirror", mirror);
  app.add_flag("--trust-nodes", trust_nodes)->excludes("--mirror");
  app.add_flag("--for-system-calls", for_system_calls);
  app.add_option("deed", deed)->required();
  CLI11_PARSE(app, argc, argv);
  try {
    far::PoolOptions options{.bytes = farside::parse_bytes(far_size, "--far")};
    if (mirror) options.protection = far::Protection::mirror;
    if (trust_nodes) options.protection = far::Protection::trust_nodes;
    far::Heap heap(far::open_pool(options),
                   {.local_bytes = farside::parse_bytes(local, "--local"), .for_system_calls = for_system_calls});
    kDeeds.at(deed)(heap);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hammer: %s\n", error.what());
    return 1;
  }
}
