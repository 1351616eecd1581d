// A program that far memory serves from outside, with the library's part of docs/protocols/far_daemon.md played by
// hand: nothing is hooked, and its threads touch the arena as they are told to. Exits with 0 when it found all that it
// wrote.
//
//   far_daemon_program MODE SOCKET PAGES [SEED]
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/far/daemon_client.h"

namespace {

using farside::far::client::FarMemory;
using farside::far::client::give_up;
using farside::far::client::kPageBytes;

constexpr std::size_t kStaticPages = 1024;

alignas(kPageBytes) std::array<std::byte, kStaticPages * kPageBytes> static_array;

std::uint64_t& static_word(std::size_t page) {
  return *reinterpret_cast<std::uint64_t*>(static_array.data() + page * kPageBytes);
}

void write_static_array(std::uint64_t seed) {
  for (std::size_t page = 0; page < kStaticPages; ++page) static_word(page) = seed + page;
}

/// What a process wrote, beside what it finds. Every page has a few words that count, and are in different lines of it.
class Model {
 public:
  Model(const FarMemory& memory, std::size_t pages) : memory_(memory), written_(pages * kWords) {}

  void write(std::size_t page, std::uint64_t value) {
    for (std::size_t i = 0; i < kWords; ++i) memory_.word(page, place(i)) = written_[page * kWords + i] = value + i;
  }
  void forget(std::size_t page) { std::fill_n(&written_[page * kWords], kWords, 0); }
  void check(std::size_t page) {
    for (std::size_t i = 0; i < kWords; ++i) {
      if (memory_.word(page, place(i)) != written_[page * kWords + i]) ++lost_;
    }
  }
  void check_static_array(std::uint64_t seed) {
    for (std::size_t page = 0; page < kStaticPages; ++page) {
      if (static_word(page) != seed + page) ++lost_;
    }
  }
  void check_all() {
    for (std::size_t page = 0; page < pages(); ++page) check(page);
  }
  [[nodiscard]] std::size_t pages() const { return written_.size() / kWords; }
  [[nodiscard]] int exit_code(const char* who) const {
    if (lost_ != 0) std::fprintf(stderr, "%s: %zu words are not what was written\n", who, lost_);
    return lost_ == 0 ? 0 : 1;
  }

 private:
  static constexpr std::size_t kWords = 4;
  static std::size_t place(std::size_t i) { return i * 129; }

  const FarMemory& memory_;
  std::vector<std::uint64_t> written_;
  std::size_t lost_ = 0;
};

// Walks and jumps, reads and writes, and now and then zeros a page or gives some away.
void exercise(FarMemory& memory, Model& model, std::mt19937_64& random, int steps) {
  for (int n = 0; n < steps; ++n) {
    const std::size_t page = random() % model.pages();
    switch (random() % 16) {
      case 0:
        for (std::size_t p = page; p < std::min(page + 100, model.pages()); ++p) model.check(p);
        break;
      case 1:
        for (std::size_t p = page; p < std::min(page + 50, model.pages()); ++p) model.write(p, random() | 1U);
        break;
      case 2: {
        if (random() % 8 != 0) break;
        const std::size_t count = std::min<std::size_t>(1 + random() % 80, model.pages() - page);
        memory.discard(page, count);
        for (std::size_t p = page; p < page + count; ++p) model.forget(p);
        break;
      }
      case 3:
        std::memset(memory.base() + page * kPageBytes, 0, kPageBytes);
        model.forget(page);
        break;
      default: random() % 2 == 0 ? model.write(page, random() | 1U) : model.check(page);
    }
  }
}

int ended_well(pid_t child) {
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 4;
}

int hammer(const char* socket, std::size_t pages, std::uint64_t seed) {
  FarMemory memory(socket);
  Model model(memory, pages);
  std::mt19937_64 random(seed);
  for (std::size_t page = 0; page < pages; ++page) model.write(page, random());
  exercise(memory, model, random, 6000);
  model.check_all();
  return model.exit_code("hammer");
}

// Several threads, each with words of its own in the same pages.
int share_pages(const char* socket, std::size_t pages, std::uint64_t seed) {
  FarMemory memory(socket);
  std::array<std::size_t, 4> lost{};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < lost.size(); ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(seed + t);
      std::vector<std::uint64_t> written(pages);
      for (std::uint64_t n = 1; n <= 8000; ++n) {
        const std::size_t page = random() % pages;
        std::uint64_t& word = memory.word(page, 1 + t);
        if (word != written[page]) ++lost[t];
        if (random() % 4 != 0) word = written[page] = n;
      }
      for (std::size_t page = 0; page < pages; ++page) {
        if (memory.word(page, 1 + t) != written[page]) ++lost[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return std::all_of(lost.begin(), lost.end(), [](std::size_t n) { return n == 0; }) ? 0 : 1;
}

// A family: each forks in the middle of what it does, and all go on to write.
int have_children(const char* socket, std::size_t pages, std::uint64_t seed) {
  FarMemory memory(socket, static_array);
  Model model(memory, pages);
  std::mt19937_64 random(seed);
  for (std::size_t page = 0; page < pages; ++page) model.write(page, random());
  write_static_array(seed);
  std::vector<pid_t> children;
  for (int generation = 0; generation < 3; ++generation) {
    exercise(memory, model, random, 2000);
    const pid_t child = memory.fork();
    if (child == 0) {
      model.check_static_array(seed);
      random.seed(seed += 1 + static_cast<std::uint64_t>(generation));
      write_static_array(seed);
      children.clear();
    } else {
      children.push_back(child);
    }
  }
  exercise(memory, model, random, 2000);
  model.check_all();
  model.check_static_array(seed);
  int code = model.exit_code("family");
  for (const pid_t child : children) code = std::max(code, ended_well(child));
  return code;
}

// More comes between the answer and the fork than there is room for.
int fork_late(const char* socket, std::size_t pages, std::uint64_t /*seed*/) {
  FarMemory memory(socket);
  Model model(memory, pages);
  for (std::size_t page = 0; page < pages; ++page) model.write(page, page + 1);
  const pid_t child = memory.fork([&] { model.check_all(); });
  model.check_all();
  const int code = model.exit_code(child == 0 ? "child" : "parent");
  return child == 0 ? code : std::max(code, ended_well(child));
}

// The child reads what its parent writes over again and again.
int fork_and_overwrite(const char* socket, std::size_t pages, std::uint64_t /*seed*/) {
  FarMemory memory(socket);
  Model model(memory, pages);
  for (std::size_t page = 0; page < pages; ++page) model.write(page, page + 1);
  std::array<int, 2> written{};
  if (::pipe(written.data()) != 0) give_up("pipe");
  const pid_t child = memory.fork();
  if (child == 0) {
    char byte = 0;
    if (::read(written[0], &byte, 1) != 1) give_up("read");
    model.check_all();
    return model.exit_code("child");
  }
  for (std::uint64_t round = 2; round < 4; ++round) {
    for (std::size_t page = 0; page < pages; ++page) model.write(page, round * 1'000'000 + page);
  }
  if (::write(written[1], "", 1) != 1) give_up("write");
  model.check_all();
  return std::max(model.exit_code("parent"), ended_well(child));
}

// Some of a static array is there before far memory is.
int use_static_array(const char* socket, std::size_t /*pages*/, std::uint64_t /*seed*/) {
  auto* const words = reinterpret_cast<std::uint64_t*>(static_array.data());
  constexpr std::size_t kStep = kPageBytes / 8;
  constexpr std::size_t kCount = static_array.size() / 8;
  for (std::size_t i = 0; i < kCount; i += 3 * kStep) words[i] = i + 1;
  FarMemory memory(socket, static_array);
  for (std::size_t page = 0; page < kStaticPages; ++page) memory.word(page, 0) = page;
  for (std::size_t i = kStep; i < kCount; i += 3 * kStep) words[i] = i + 1;
  std::size_t lost = 0;
  for (std::size_t i = 0; i < kCount; i += kStep) {
    const bool is_written = i % (3 * kStep) != 2 * kStep;
    if (words[i] != (is_written ? i + 1 : 0)) ++lost;
  }
  for (std::size_t page = 0; page < kStaticPages; ++page) lost += memory.word(page, 0) != page ? 1U : 0U;
  return lost == 0 ? 0 : 1;
}

// What it had is no longer its own after exec.
int replace_itself(const char* socket, std::size_t pages, std::uint64_t /*seed*/) {
  const FarMemory memory(socket);
  Model model(memory, pages);
  for (std::size_t page = 0; page < pages; ++page) model.write(page, page + 1);
  ::execl("/proc/self/exe", "far_daemon_program", "hammer", socket, std::to_string(pages).c_str(), nullptr);
  give_up("exec");
}

// Pins the last page when the daemon has seen that none is pinned, and is about to empty them all.
int pin_during_clear(const char* socket, std::size_t pages, std::uint64_t /*seed*/) {
  using farside::far::DaemonPacketKind;
  FarMemory memory(socket);
  for (std::size_t page = 0; page < pages; ++page) memory.word(page, 0) = page + 1;
  FarMemory::hold_pages();
  const int clear = memory.ask(DaemonPacketKind::clear, 0, pages);
  FarMemory::await_held_page();
  const int pin = memory.ask(DaemonPacketKind::advise, pages - 1, 1, farside::far::Hint::pinned);
  // Time for a daemon that is wrong: a right one answers only after the clear, however long that takes.
  pollfd answer{pin, POLLIN, 0};
  if (::poll(&answer, 1, 300) < 0) give_up("poll");
  FarMemory::let_pages_go();
  FarMemory::expect_done(pin);
  FarMemory::expect_done(clear);
  unsigned char is_here = 0;
  if (::mincore(memory.base() + (pages - 1) * kPageBytes, kPageBytes, &is_here) != 0) give_up("mincore");
  if (is_here == 0) std::fprintf(stderr, "a page that is pinned is not here\n");
  return is_here != 0 ? 0 : 1;
}

// Waits to be stopped or killed, or goes on writing; and has up to three children, who have some themselves.
int stay(const char* socket, std::size_t pages, std::uint64_t seed) {
  FarMemory memory(socket);
  Model model(memory, pages);
  for (std::size_t page = 0; page < pages; ++page) model.write(page, page + 1);
  std::puts("ready");
  std::fflush(stdout);
  std::mt19937_64 random(seed);
  for (std::uint64_t children = seed % 4;;) {
    if (seed == 0) ::pause();
    exercise(memory, model, random, 100);
    if (children == 0) continue;
    --children;
    if (memory.fork() == 0) random.seed(seed += 100);
  }
}

// Nanoseconds of a read that faults, in the middle of 1000, in a random order.
int time_faults(const char* socket, std::size_t pages, std::uint64_t seed) {
  FarMemory memory(socket);
  Model model(memory, pages);
  for (std::size_t page = 0; page < pages; ++page) model.write(page, page + 1);
  std::mt19937_64 random(seed);
  std::vector<std::int64_t> times;
  std::uint64_t sum = 0;
  for (int n = 0; n < 4000; ++n) {
    const auto begin = std::chrono::steady_clock::now();
    sum += memory.word(random() % pages, 0);
    times.push_back((std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(times.begin(), times.end());
  std::printf("%lld %lld %llu\n", static_cast<long long>(times[times.size() / 2]),
              static_cast<long long>(times[times.size() * 9 / 10]), static_cast<unsigned long long>(sum % 2));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const std::string mode = argv[1];
  const std::size_t pages = std::strtoull(argv[3], nullptr, 10);
  const std::uint64_t seed = argc > 4 ? std::strtoull(argv[4], nullptr, 10) : 1;
  const auto run = mode == "hammer"        ? hammer
                   : mode == "share-pages" ? share_pages
                   : mode == "family"      ? have_children
                   : mode == "fork-late"   ? fork_late
                   : mode == "overwrite"   ? fork_and_overwrite
                   : mode == "exec"        ? replace_itself
                   : mode == "static"      ? use_static_array
                   : mode == "pin-late"    ? pin_during_clear
                   : mode == "stay"        ? stay
                   : mode == "time"        ? time_faults
                                           : nullptr;
  const int code = run == nullptr ? 2 : run(argv[2], pages, seed);
  std::fflush(stdout);
  std::_Exit(code);
}
