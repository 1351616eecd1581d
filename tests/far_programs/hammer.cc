// A program that knows nothing of farside, and looks at its memory while it does what programs do. `hammer NAME` ends
// with 0 when it found every byte as it left it, with 1 and a line when not.
#include <algorithm>
#include <atomic>
#include <cerrno>
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
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kPages = 12288;  // 48 MiB: several times the budget of the tests
constexpr std::size_t kWords = kPage / sizeof(std::uint64_t);

[[noreturn]] void fail(const char* what, std::size_t page) {
  std::fprintf(stderr, "hammer: %s, page %zu\n", what, page);
  std::fflush(stderr);
  ::_exit(1);
}

void require(bool right, const char* what, std::size_t page = 0) {
  if (!right) fail(what, page);
}

using Page = std::uint64_t[kWords];

Page* map(std::size_t pages, void* at = nullptr, int flags = 0) {
  void* mapped = ::mmap(at, pages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  require(mapped != MAP_FAILED, "mmap failed");
  return static_cast<Page*>(mapped);
}

std::uint64_t value(std::size_t page, std::uint64_t version) { return (page + 1) * 0x9e3779b97f4a7c15U ^ version; }

void write_page(Page* area, std::size_t page, std::uint64_t version) {
  for (const std::size_t word : {std::size_t{0}, kWords / 2, kWords - 1}) area[page][word] = value(page, version);
}

void write_all(Page* area, std::uint64_t version, std::size_t pages = kPages) {
  for (std::size_t page = 0; page < pages; ++page) write_page(area, page, version);
}

void check_page(Page* area, std::size_t page, std::uint64_t version, const char* what) {
  for (const std::size_t word : {std::size_t{0}, kWords / 2, kWords - 1})
    require(area[page][word] == value(page, version), what, page);
  require(area[page][1] == 0, what, page);
}

void check_all(Page* area, std::uint64_t version, const char* what, std::size_t pages = kPages) {
  for (std::size_t page = 0; page < pages; ++page) check_page(area, page, version, what);
}

std::uint64_t next(std::uint64_t& state) {
  state = state * 6364136223846793005U + 1442695040888963407U;
  return state >> 33U;
}

void wait_for(pid_t child, const char* what) {
  int status = 0;
  require(::waitpid(child, &status, 0) == child && status == 0, what);
}

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

// Memory that is moved, grown, cut, discarded, covered and protected keeps the bytes that it must keep, and no others.
void mappings() {
  const auto move = [](Page* area, std::size_t from, std::size_t to) {
    void* moved = ::mremap(area, from * kPage, to * kPage, MREMAP_MAYMOVE);
    require(moved != MAP_FAILED, "mremap failed");
    return static_cast<Page*>(moved);
  };
  Page* area = map(kPages / 2);
  write_all(area, 1, kPages / 2);
  Page* wall = map(1024);  // so that it can hardly grow where it is
  area = move(area, kPages / 2, kPages);
  check_all(area, 1, "a byte is wrong after mremap", kPages / 2);
  for (std::size_t page = kPages / 2; page < kPages; ++page) require(area[page][0] == 0, "not zero after mremap", page);
  write_all(area, 2);
  area = move(area, kPages, kPages * 3 / 4);
  check_all(area, 2, "a byte is wrong after it was cut", kPages * 3 / 4);

  require(::madvise(area[100], 1000 * kPage, MADV_DONTNEED) == 0, "madvise failed");
  require(::munmap(area[2000], 1000 * kPage) == 0, "munmap failed");
  map(1000, area[4000], MAP_FIXED);
  require(::mprotect(area[6000], 1000 * kPage, PROT_READ) == 0, "mprotect failed");
  for (std::size_t page = 0; page < kPages * 3 / 4; ++page) {
    if ((page >= 100 && page < 1100) || (page >= 4000 && page < 5000)) {
      require(area[page][0] == 0 && area[page][kWords - 1] == 0, "not zero after it was discarded or covered", page);
    } else if (page < 2000 || page >= 3000) {
      check_page(area, page, 2, "a neighbour of what was discarded, covered or protected is wrong");
    }
  }
  require(::mprotect(area[6000], 1000 * kPage, PROT_READ | PROT_WRITE) == 0, "mprotect failed");
  Page* hole = map(1000, area[2000], MAP_FIXED);
  require(hole == area + 2000, "the hole was not filled");
  write_all(area, 3, kPages * 3 / 4);
  check_all(area, 3, "a byte is wrong after all that", kPages * 3 / 4);
  require(wall[5][0] == 0 && ::munmap(wall, 1024 * kPage) == 0 && ::munmap(area, kPages * 3 / 4 * kPage) == 0,
          "munmap failed");
}

// Files mapped over a part of the memory, one of a disk and one that lies in memory, are the program's and its
// children's as without farside; so is what lies beside them.
void files_mapped_over() {
  constexpr std::size_t kFilePages = 1000;
  Page* area = map(kPages);
  write_all(area, 1);
  char name[] = "/tmp/hammer-XXXXXX";
  const int files[] = {::mkstemp(name), ::memfd_create("hammer", 0)};
  ::unlink(name);
  const std::size_t places[] = {2000, 6000};
  for (std::size_t i = 0; i < 2; ++i) {
    require(::ftruncate(files[i], kFilePages * kPage) == 0, "ftruncate failed");
    void* mapped =
        ::mmap(area[places[i]], kFilePages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, files[i], 0);
    require(mapped == area[places[i]], "a file was not mapped");
  }
  const auto check = [&](std::uint64_t version, const char* what) {
    for (std::size_t page = 0; page < kPages; ++page) check_page(area, page, version, what);
  };
  write_all(area, 2);
  check(2, "a byte is wrong beside or in a mapped file");
  const pid_t child = ::fork();
  require(child >= 0, "fork failed");
  if (child == 0) {
    check(2, "a child's byte is wrong beside or in a mapped file");
    write_all(area, 3);
    check(3, "a child's own byte is wrong beside or in a mapped file");
    const pid_t grandchild = ::fork();
    if (grandchild == 0) {
      check(3, "a grandchild's byte is wrong beside or in a mapped file");
      ::_exit(0);
    }
    wait_for(grandchild, "the grandchild failed");
    ::_exit(0);
  }
  write_all(area, 4);
  wait_for(child, "the child failed");
  check(4, "a parent's byte is wrong beside or in a mapped file");
}

// Of a budget of 12 MiB nine may be pinned; what is pinned twice counts once.
void pins() {
  constexpr std::size_t kBytes = 6U << 20U;
  Page* area = map(kPages);
  for (int i = 0; i < 2; ++i) require(::mlock(area, kBytes) == 0, "mlock failed");
  require(::mlock(area[kPages / 2], kBytes) == -1 && errno == ENOMEM, "more is pinned than may be");
  write_all(area, 1);
  check_all(area, 1, "a byte is wrong");
  require(::munlock(area, kBytes) == 0 && ::mlock(area[kPages / 2], kBytes) == 0, "it counts still");
}

// A mapping that is refused changes nothing of what lies where it was to be.
void refused_mappings() {
  Page* area = map(kPages);
  write_all(area, 1);
  const auto fails = [&](int file, off_t offset, int error) {
    return ::mmap(area[2000], 1000 * kPage, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, offset) == MAP_FAILED &&
           errno == error;
  };
  char name[] = "/tmp/hammer-XXXXXX";
  const int file = ::mkstemp(name);
  const int write_only = ::open(name, O_WRONLY);
  ::unlink(name);
  require(fails(-1, 0, EBADF), "no file was mapped");
  require(fails(write_only, 0, EACCES), "a file that cannot be read was mapped");
  require(fails(file, 1, EINVAL), "half a page was mapped");
  void* nothing = ::mmap(nullptr, kPage, PROT_READ, MAP_SHARED, file, 0);
  require(::munmap(nothing, kPage) == 0, "munmap failed");
  require(::mremap(nothing, kPage, kPage, MREMAP_MAYMOVE | MREMAP_FIXED, area[4000]) == MAP_FAILED && errno == EFAULT,
          "what is not there was moved");
  check_all(area, 1, "a byte is wrong where nothing was mapped");
}

// A file over the highest memory that was touched is known to a child's child.
void file_at_the_end() {
  constexpr std::size_t kFilePages = 1000;
  Page* area = map(kPages);
  write_all(area, 1);
  char name[] = "/tmp/hammer-XXXXXX";
  const int file = ::mkstemp(name);
  ::unlink(name);
  require(::ftruncate(file, kFilePages * kPage) == 0, "ftruncate failed");
  void* place = area[kPages - kFilePages];
  require(::mmap(place, kFilePages * kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == place,
          "a file was not mapped");
  write_all(area, 2);
  const pid_t child = ::fork();
  if (child == 0) {
    const pid_t grandchild = ::fork();
    if (grandchild == 0) {
      check_all(area, 2, "a grandchild's byte is wrong beside or in a mapped file");
      write_page(area, kPages - 1, 3);
      ::_exit(0);
    }
    wait_for(grandchild, "the grandchild failed");
    ::_exit(0);
  }
  wait_for(child, "the child failed");
  check_page(area, kPages - 1, 3, "what the grandchild wrote to a file is wrong");
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

// As many mappings as the kernel allows. What would take another fails as it always does, and changes nothing; all else
// goes on.
void too_many_mappings() {
  std::FILE* const setting = std::fopen("/proc/sys/vm/max_map_count", "r");
  std::size_t most = 0;
  require(setting != nullptr && std::fscanf(setting, "%zu", &most) == 1, "the kernel does not say how many it allows");
  std::fclose(setting);
  Page* area = map(kPages);
  write_all(area, 1);
  Page* frozen = map(1024);
  write_all(frozen, 1, 1024);
  require(::mprotect(frozen, 1024 * kPage, PROT_READ) == 0, "mprotect failed");
  Page* split = map(most + 1000);
  std::size_t page = 0;
  while (::mprotect(split[page], kPage, PROT_READ) == 0) page += 2;
  require(errno == ENOMEM && page > most / 2, "mprotect failed for another reason");

  const auto fails = [](int result) { return result == -1 && errno == ENOMEM; };
  require(fails(::mprotect(area[100], kPage, PROT_READ)), "one more mapping than the kernel allows");
  const auto covers = [](Page* at, std::size_t pages, int flags, int file) {
    return ::mmap(at, pages * kPage, PROT_READ, MAP_PRIVATE | MAP_FIXED | flags, file, 0) != MAP_FAILED;
  };
  require(!covers(area + 200, 1, MAP_ANONYMOUS, -1) && errno == ENOMEM, "zeros in one more mapping");
  const int file = ::memfd_create("hammer", 0);
  require(!covers(area + 300, 1, 0, file) && errno == ENOMEM, "a file in one more mapping");
  require(fails(::munmap(frozen[256], 512 * kPage)), "to unmap would take a mapping more, and did not fail");
  check_all(area, 1, "a byte is wrong");
  require(!covers(frozen, 1024, 0, file) && errno == ENOMEM, "a file where mappings have run out");
  ::close(file);
  check_all(frozen, 1, "what was not unmapped or covered is wrong", 1024);
  write_all(area, 2);
  const pid_t child = ::fork();
  require(child >= 0, "fork failed");
  if (child == 0) {
    check_all(area, 2, "the child's bytes are wrong");
    ::_exit(0);
  }
  wait_for(child, "the child failed");
  Page* more = map(kPages);
  write_all(more, 3);
  check_all(area, 2, "a byte is wrong after that");
  require(::munmap(split, (most + 1000) * kPage) == 0, "munmap failed");
  require(::munmap(frozen[256], 512 * kPage) == 0, "munmap still fails");
  write_all(map(kPages), 4);
  check_all(more, 3, "a byte is wrong in the end");
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
