// A program that knows nothing of farside, and looks at its memory while it does what programs do. `hammer NAME` ends
// with 0 when it found every byte as it left it, with 1 and a line when not.
#include "tests/far_programs/hammer.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace {

using namespace hammer;  // NOLINT(google-build-using-namespace)

// Four threads add to words of their own in pages of all, while those come and go; each then knows what must be there.
void threads() {
  constexpr std::size_t kThreads = 4;
  constexpr std::size_t kSteps = 20'000;
  Page* area = map(kPages);
  const auto with_all = [](auto work) {
    std::vector<std::thread> running;
    for (std::size_t i = 0; i < kThreads; ++i) running.emplace_back(work, i);
    for (std::thread& thread : running) thread.join();
  };
  with_all([area](std::size_t self) {
    std::uint64_t dice = self;
    for (std::size_t step = 0; step < kSteps; ++step) area[next(dice) % kPages][self] += step;
  });
  with_all([area](std::size_t self) {
    std::vector<std::uint64_t> sums(kPages);
    std::uint64_t dice = self;
    for (std::size_t step = 0; step < kSteps; ++step) sums[next(dice) % kPages] += step;
    for (std::size_t page = 0; page < kPages; ++page) require(area[page][self] == sums[page], "a write was lost", page);
  });
}

// A child has its parent's bytes of the fork; what either writes, the other does not see. The same for a child's child.
void forks() {
  Page* area = map(kPages);
  write_all(area, 1);
  const pid_t child = ::fork();
  require(child >= 0, "fork failed");
  if (child == 0) {
    for (std::size_t page = 0; page < kPages; page += 2) write_page(area, page, 2);
    const pid_t grandchild = ::fork();
    require(grandchild >= 0, "the child's fork failed");
    if (grandchild == 0) {
      for (std::size_t page = 0; page < kPages; ++page)
        check_page(area, page, page % 2 == 0 ? 2 : 1, "the grandchild's bytes are wrong");
      write_all(area, 3);
      check_all(area, 3, "the grandchild's own bytes are wrong");
      ::_exit(0);
    }
    for (std::size_t page = 1; page < kPages; page += 2) check_page(area, page, 1, "the child's bytes are wrong");
    for (std::size_t page = 0; page < kPages; page += 2) check_page(area, page, 2, "the child's own bytes are wrong");
    wait_for(grandchild, "the grandchild failed");
    ::_exit(0);
  }
  for (std::size_t page = 0; page < kPages; page += 3) write_page(area, page, 4);
  for (std::size_t page = 0; page < kPages; ++page)
    check_page(area, page, page % 3 == 0 ? 4 : 1, "the parent's bytes are wrong");
  wait_for(child, "the child failed");
  for (std::size_t page = 0; page < kPages; ++page)
    check_page(area, page, page % 3 == 0 ? 4 : 1, "the parent's bytes are wrong after its child ended");
}

// Children that end at once, while other threads write.
void forks_with_threads() {
  Page* area = map(kPages);
  std::atomic<bool> stop = false;
  std::vector<std::thread> writers;
  for (std::size_t self = 0; self < 2; ++self)
    writers.emplace_back([&stop, area, self] {
      std::uint64_t dice = self;
      while (!stop) ++area[next(dice) % kPages][2 * self];
    });
  Page* quiet = map(kPages / 4);
  write_all(quiet, 1, kPages / 4);
  for (int round = 0; round < 5; ++round) {
    const pid_t child = ::fork();
    require(child >= 0, "fork failed");
    if (child == 0) {
      check_all(quiet, 1, "a child's bytes are wrong", kPages / 4);
      ::_exit(0);
    }
    wait_for(child, "a child failed");
  }
  stop = true;
  for (std::thread& thread : writers) thread.join();
}

// What it started has its words, which lie in far memory; a child of vfork writes into its parent's memory.
void spawns() {
  Page* area = map(kPages);
  char* words = reinterpret_cast<char*>(area[7]);
  std::memcpy(words, "test\0\0\0\0far\0\0\0\0\0=", 18);
  write_all(area + 8, 1, kPages - 8);  // so the words are far
  char* arguments[] = {words, words + 8, words + 16, words + 8, nullptr};
  pid_t child = 0;
  require(::posix_spawnp(&child, words, nullptr, nullptr, arguments, environ) == 0, "posix_spawn failed");
  wait_for(child, "what posix_spawn started failed");
  for (std::size_t page = 8; page < kPages; page += 1000) {
    // NOLINTBEGIN(clang-analyzer-security.insecureAPI.vfork,clang-analyzer-unix.Vfork): just that is looked at
    child = ::vfork();
    if (child == 0) {
      area[page][2] = page;
      ::execvp(words, arguments);
      ::_exit(1);
    }
    // NOLINTEND(clang-analyzer-security.insecureAPI.vfork,clang-analyzer-unix.Vfork)
    require(child > 0, "vfork failed");
    wait_for(child, "what vfork started failed");
    require(area[page][2] == page, "what the child of vfork wrote is lost", page);
  }
  check_all(area + 8, 1, "the parent's bytes are wrong", kPages - 8);
}

// A child of vfork whose parent is killed goes on with the memory of both.
void vfork_outlives_its_parent() {
  Page* area = map(kPages);
  write_all(area, 1);
  int ends[2];
  require(::pipe(ends) == 0, "pipe failed");
  if (::fork() == 0) {
    const pid_t parent = ::getpid();
    // NOLINTBEGIN(clang-analyzer-security.insecureAPI.vfork,clang-analyzer-unix.Vfork): just that is looked at
    if (::vfork() == 0) {
      ::kill(parent, SIGKILL);
      while (::getppid() == parent) ::usleep(1000);
      ::usleep(100'000);  // so that its end is noticed
      for (std::size_t page = 0; page < kPages; page += 16)
        check_page(area, page, 1, "what a killed parent had is wrong");
      ::_exit(::write(ends[1], "", 1) == 1 ? 0 : 1);
    }
    // NOLINTEND(clang-analyzer-security.insecureAPI.vfork,clang-analyzer-unix.Vfork)
    ::_exit(1);
  }
  ::close(ends[1]);
  char byte = 0;
  require(::read(ends[0], &byte, 1) == 1, "the child of a killed parent failed");
}

// The kernel reads and writes far memory as the program does.
void system_calls() {
  Page* area = map(kPages);
  write_all(area, 1);
  char name[] = "/tmp/hammer-XXXXXX";
  const int file = ::mkstemp(name);
  ::unlink(name);
  constexpr std::size_t kBytes = kPages * kPage;
  for (std::size_t done = 0; done < kBytes;) {
    const ssize_t written =
        ::write(file, reinterpret_cast<char*>(area) + done, std::min<std::size_t>(kBytes - done, 9'999'999));
    require(written > 0, "write failed", done / kPage);
    done += written;
  }
  write_all(area, 2);
  for (std::size_t done = 0; done < kBytes;) {
    iovec parts[] = {{reinterpret_cast<char*>(area) + done, std::min<std::size_t>(kBytes - done, 3'000'001)},
                     {reinterpret_cast<char*>(area) + done + 3'000'001, kBytes - done > 6'000'000 ? 2'000'000U : 0U}};
    const ssize_t got = ::preadv(file, parts, 2, static_cast<off_t>(done));
    require(got > 0, "read failed", done / kPage);
    done += got;
  }
  check_all(area, 1, "what was written and read is wrong");
  int ends[2];
  require(::pipe(ends) == 0, "pipe failed");
  std::thread writer([&] {
    for (std::size_t page = 0; page < kPages; page += 16)
      require(::write(ends[1], area[page], kPage) == kPage, "write failed", page);
  });
  Page* copy = map(kPages);
  for (std::size_t page = 0; page < kPages; page += 16)
    for (std::size_t done = 0; done < kPage;) {
      const ssize_t got = ::read(ends[0], reinterpret_cast<char*>(copy[page]) + done, kPage - done);
      require(got > 0, "read failed", page);
      done += got;
    }
  writer.join();
  for (std::size_t page = 0; page < kPages; page += 16)
    check_page(copy, page, 1, "what came through the pipe is wrong");
  ::close(file);
}

Page* signalled = nullptr;
std::size_t alarms = 0;

// A handler writes to the memory that it interrupts the use of.
void signals() {
  signalled = map(kPages);
  struct sigaction action {};
  action.sa_handler = [](int) {
    static std::uint64_t dice = 1;
    ++signalled[next(dice) % kPages][kWords - 2];
    ++alarms;
  };
  ::sigaction(SIGALRM, &action, nullptr);
  const itimerval often = {.it_interval = {0, 500}, .it_value = {0, 500}};
  ::setitimer(ITIMER_REAL, &often, nullptr);
  for (std::uint64_t version = 1; version <= 3; ++version) {
    write_all(signalled, version);
    check_all(signalled, version, "a byte is wrong");
  }
  const itimerval never = {};
  ::setitimer(ITIMER_REAL, &never, nullptr);
  std::size_t counted = 0;
  for (std::size_t page = 0; page < kPages; ++page) counted += signalled[page][kWords - 2];
  require(counted == alarms && alarms > 0, "a handler's write was lost");
}

// malloc, calloc, realloc, aligned_alloc, new and delete, of small and large, in two threads.
void allocations() {
  const auto work = [](std::uint64_t dice) {
    std::vector<std::pair<std::uint64_t*, std::size_t>> held(64);
    for (std::size_t step = 1; step <= 3000; ++step) {
      auto& [words, count] = held[next(dice) % held.size()];
      if (words != nullptr)
        require(words[0] == count && words[count - 1] == count && words[count / 2] == count,
                "an allocation's bytes are wrong", step);
      const std::size_t wanted = next(dice) % (step % 50 == 0 ? 1'000'000 : 2000) + 4;
      switch (next(dice) % 3) {
        case 0:
          std::free(words);
          words = static_cast<std::uint64_t*>(std::calloc(wanted, sizeof(std::uint64_t)));
          for (std::size_t i = 0; i < wanted; i += 100) require(words[i] == 0, "calloc gave no zeros", step);
          break;
        case 1:
          words = static_cast<std::uint64_t*>(std::realloc(words, wanted * sizeof(std::uint64_t)));
          if (count != 0) require(words[0] == count, "realloc lost bytes", step);
          break;
        default:
          std::free(words);
          words = static_cast<std::uint64_t*>(
              std::aligned_alloc(kPage, (wanted * sizeof(std::uint64_t) + kPage - 1) / kPage * kPage));
          require(reinterpret_cast<std::uintptr_t>(words) % kPage == 0, "not aligned", step);
      }
      count = wanted;
      words[0] = words[count / 2] = words[count - 1] = count;
    }
    for (auto& [words, count] : held) std::free(words);
  };
  std::thread other(work, 1);
  work(2);
  other.join();
}

alignas(64) std::uint64_t static_array[kPages * kWords];
int beside = 7;

// A large static array, and what stands beside it.
void static_arrays() {
  const std::size_t in_page = reinterpret_cast<std::uintptr_t>(static_array) % kPage;
  auto* area = reinterpret_cast<Page*>(static_array + (kPage - in_page) / sizeof(std::uint64_t));
  for (std::size_t word = 0; word < kPages * kWords; word += 100)
    require(static_array[word] == 0, "not zero", word / kWords);
  write_all(area, 1, kPages - 1);
  check_all(area, 1, "a byte is wrong", kPages - 1);
  require(beside == 7, "the neighbour was changed");
}

// Descriptors: all that are not the standard ones may be closed at any time.
void closes_everything() {
  Page* area = map(kPages);
  write_all(area, 1);
  ::close_range(3, ~0U, 0);
  check_all(area, 1, "a byte is wrong");
  write_all(area, 2);
  check_all(area, 2, "a byte is wrong after that");
  require(::open("/dev/null", O_RDONLY) == 3, "a descriptor is not the program's own");
}

// Goes on for ever, until a byte is wrong.
void for_ever() {
  Page* area = map(kPages);
  write_all(area, 0);
  std::puts("ready");
  for (std::uint64_t version = 1;; ++version) {
    std::fflush(stdout);
    check_all(area, version - 1, "a byte is wrong");
    write_all(area, version);
    std::puts("right");
  }
}

const std::map<std::string_view, void (*)()> kDeeds = {
    {"allocations", allocations},
    {"closes_everything", closes_everything},
    {"file_at_the_end", file_at_the_end},
    {"files_mapped_over", files_mapped_over},
    {"for_ever", for_ever},
    {"forks", forks},
    {"forks_with_threads", forks_with_threads},
    {"mappings", mappings},
    {"pins", pins},
    {"refused_mappings", refused_mappings},
    {"signals", signals},
    {"spawns", spawns},
    {"static_arrays", static_arrays},
    {"system_calls", system_calls},
    {"threads", threads},
    {"too_many_mappings", too_many_mappings},
    {"vfork_outlives_its_parent", vfork_outlives_its_parent},
};

}  // namespace

int main(int argc, char** argv) {
  const auto deed = argc == 2 ? kDeeds.find(argv[1]) : kDeeds.end();
  if (deed == kDeeds.end()) {
    std::fprintf(stderr, "hammer: one of its names is needed\n");
    return 2;
  }
  deed->second();
  return 0;
}
