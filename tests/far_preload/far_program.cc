// A program that knows nothing of far memory. Its argument says what it does with its memory; it checks all that it
// gets back, and exits with 0 when all was right.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kLarge = std::size_t{8} << 20U;

#define REQUIRE(condition) require(condition, #condition, __LINE__)
void require(bool good, const char* what, int line) {
  if (good) return;
  std::fprintf(stderr, "line %d: not so: %s (errno %d)\n", line, what, errno);
  _exit(1);
}

std::uint8_t pattern(std::size_t at, unsigned seed) { return static_cast<std::uint8_t>(at * 31 + at / kPage + seed); }

void fill(std::uint8_t* memory, std::size_t bytes, unsigned seed) {
  for (std::size_t at = 0; at < bytes; at += 61) memory[at] = pattern(at, seed);
}

bool is_filled(const std::uint8_t* memory, std::size_t bytes, unsigned seed) {
  for (std::size_t at = 0; at < bytes; at += 61) {
    if (memory[at] != pattern(at, seed)) return false;
  }
  return true;
}

bool is_zero(const std::uint8_t* memory, std::size_t bytes) {
  return std::all_of(memory, memory + bytes, [](std::uint8_t byte) { return byte == 0; });
}

std::uint8_t* map(std::size_t bytes, int protection = PROT_READ | PROT_WRITE) {
  void* const memory = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  return static_cast<std::uint8_t*>(memory);
}

std::uint8_t static_array[kLarge];

void statics() {
  REQUIRE(is_zero(static_array, kLarge));
  fill(static_array, kLarge, 1);
  REQUIRE(is_filled(static_array, kLarge, 1));
}

void malloc_family() {
  auto* large = static_cast<std::uint8_t*>(malloc(kLarge));
  fill(large, kLarge, 2);
  large = static_cast<std::uint8_t*>(realloc(large, 2 * kLarge));
  REQUIRE(is_filled(large, kLarge, 2));
  std::list<std::string> small;
  for (int i = 0; i < 100000; ++i) small.push_back("a string of its own, number " + std::to_string(i));
  for (int round = 0; round < 3; ++round) {
    auto* const zeros = static_cast<std::uint8_t*>(calloc(kLarge / 8, 8));
    REQUIRE(is_zero(zeros, kLarge));
    fill(zeros, kLarge, 3);
    free(zeros);
  }
  void* aligned = nullptr;
  REQUIRE(posix_memalign(&aligned, std::size_t{1} << 21U, kLarge) == 0);
  REQUIRE(reinterpret_cast<std::uintptr_t>(aligned) % (std::size_t{1} << 21U) == 0);
  free(aligned);
  int number = 0;
  for (const std::string& one : small) REQUIRE(one == "a string of its own, number " + std::to_string(number++));
  REQUIRE(is_filled(large, kLarge, 2));
  free(large);
}

void unmapped_parts() {
  std::uint8_t* const memory = map(kLarge);
  fill(memory, kLarge, 4);
  REQUIRE(munmap(memory + 10 * kPage, 5 * kPage) == 0);
  REQUIRE(munmap(memory + 10 * kPage, 5 * kPage) == 0);  // as the kernel: what is not there is no error
  REQUIRE(munmap(memory + 1, kPage) == -1 && errno == EINVAL);
  REQUIRE(is_filled(memory, kPage, 4) && memory[61 * 2000] == pattern(61 * 2000, 4));
  for (int round = 0; round < 50; ++round) {
    std::uint8_t* const again = map(2 * kLarge / 8);
    REQUIRE(is_zero(again, 2 * kLarge / 8));
    std::memset(again, 0xee, 2 * kLarge / 8);
    REQUIRE(munmap(again, 2 * kLarge / 8) == 0);
  }
  REQUIRE(memory[61 * 2000] == pattern(61 * 2000, 4));
}

void remapped() {
  auto* memory = map(kLarge);
  fill(memory, kLarge, 5);
  memory = static_cast<std::uint8_t*>(mremap(memory, kLarge, 2 * kLarge, MREMAP_MAYMOVE));
  REQUIRE(memory != MAP_FAILED && is_filled(memory, kLarge, 5) && is_zero(memory + kLarge, kLarge));
  std::uint8_t* const behind = map(kLarge);
  auto* const moved = static_cast<std::uint8_t*>(mremap(memory, 2 * kLarge, 3 * kLarge, MREMAP_MAYMOVE));
  REQUIRE(moved != MAP_FAILED && is_filled(moved, kLarge, 5) && is_zero(moved + kLarge, 2 * kLarge));
  REQUIRE(mremap(moved, 3 * kLarge, kLarge, 0) == moved && is_filled(moved, kLarge, 5));
  REQUIRE(mremap(moved, kLarge, kLarge, MREMAP_MAYMOVE | MREMAP_FIXED, behind) == behind);
  REQUIRE(is_filled(behind, kLarge, 5));
  std::uint8_t* const blocked = map(kLarge);
  REQUIRE(map(kLarge) != nullptr);
  if (mremap(blocked, kLarge, 64 * kLarge, 0) == MAP_FAILED) REQUIRE(errno == ENOMEM);
}

void advised() {
  std::uint8_t* const memory = map(kLarge);
  fill(memory, kLarge, 6);
  for (const int advice : {MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_WILLNEED, MADV_SEQUENTIAL, MADV_RANDOM, MADV_COLD,
                           MADV_DONTDUMP, MADV_DODUMP, MADV_NORMAL, MADV_DOFORK, 25 /* MADV_COLLAPSE */}) {
    REQUIRE(madvise(memory + kPage, kLarge / 2, advice) == 0);
  }
  REQUIRE(posix_madvise(memory, kLarge, POSIX_MADV_DONTNEED) == 0);
  REQUIRE(is_filled(memory, kLarge, 6));
  REQUIRE(madvise(memory, kLarge, MADV_DONTFORK) == -1 && errno == EINVAL);
  REQUIRE(madvise(memory + 100 * kPage, 50 * kPage, MADV_DONTNEED) == 0);
  REQUIRE(is_zero(memory + 100 * kPage, 50 * kPage));
  REQUIRE(memory[61 * 100] == pattern(61 * 100, 6));
  memory[100 * kPage] = 7;
  REQUIRE(memory[100 * kPage] == 7);
  REQUIRE(mlock(memory + 5, 100) == 0 && munlock(memory + 5, 100) == 0);
  REQUIRE(mlockall(MCL_CURRENT | MCL_FUTURE) == -1 && errno == ENOMEM);
}

void mapped_over() {
  std::uint8_t* const memory = map(kLarge);
  fill(memory, kLarge, 8);
  const int flags = MAP_PRIVATE | MAP_FIXED;
  REQUIRE(mmap(memory + 16 * kPage, 16 * kPage, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
  REQUIRE(is_zero(memory + 16 * kPage, 16 * kPage));
  const int file = open("/proc/self/exe", O_RDONLY);
  REQUIRE(mmap(memory + 64 * kPage, kPage, PROT_READ | PROT_WRITE, flags, file, 0) == memory + 64 * kPage);
  REQUIRE(std::memcmp(memory + 64 * kPage,
                      "\x7f"
                      "ELF",
                      4) == 0);
  memory[64 * kPage] = 1;
  std::uint8_t* const more = map(kLarge);  // makes others leave
  fill(more, kLarge, 9);
  REQUIRE(memory[64 * kPage] == 1 && std::memcmp(memory + 64 * kPage + 1, "ELF", 3) == 0);
  REQUIRE(memory[61 * 900] == pattern(61 * 900, 8));
  REQUIRE(munmap(memory, kLarge) == 0);
  REQUIRE(is_filled(more, kLarge, 9));
}

sigjmp_buf after_fault;
void on_fault(int /*signal*/) { siglongjmp(after_fault, 1); }

void protected_pages() {
  std::uint8_t* const memory = map(kLarge);
  fill(memory, kLarge, 10);
  REQUIRE(mprotect(memory, kLarge, PROT_READ) == 0);
  REQUIRE(is_filled(memory, kLarge, 10));
  std::signal(SIGSEGV, on_fault);
  if (sigsetjmp(after_fault, 1) == 0) {
    memory[0] = 1;
    REQUIRE(!"a write to what may only be read");
  }
  REQUIRE(mprotect(memory, kLarge, PROT_NONE) == 0);
  if (sigsetjmp(after_fault, 1) == 0) {
    static_cast<void>(*static_cast<volatile std::uint8_t*>(memory));
    REQUIRE(!"a read of what may not be read");
  }
  REQUIRE(munmap(memory, kLarge) == 0);
  std::uint8_t* const again = map(kLarge);
  fill(again, kLarge, 11);
  REQUIRE(is_filled(again, kLarge, 11));
}

void threads() {
  std::vector<std::thread> all;
  for (unsigned number = 0; number < 4; ++number) {
    all.emplace_back([number] {
      std::vector<std::uint64_t> words(kLarge / 32);
      std::vector<std::uint64_t> sums(words.size());
      std::uint64_t random = number + 1;
      for (int step = 0; step < 10000; ++step) {
        random = random * 6364136223846793005U + 1442695040888963407U;
        const std::size_t at = (random >> 33U) % words.size();
        words[at] += random;
        sums[at] += random;
      }
      REQUIRE(words == sums);
    });
  }
  for (std::thread& thread : all) thread.join();
}

void await_success(pid_t child) {
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  if (status != 0) std::fprintf(stderr, "a child ended with status %x\n", status);
  REQUIRE(status == 0);
}

void forks() {
  std::vector<std::uint8_t> memory(kLarge);
  fill(memory.data(), kLarge, 12);
  fill(static_array, kLarge, 12);
  for (int round = 0; round < 3; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      REQUIRE(is_filled(memory.data(), kLarge, 12) && is_filled(static_array, kLarge, 12));
      fill(memory.data(), kLarge, 13);
      const pid_t grandchild = fork();
      if (grandchild == 0) {
        REQUIRE(is_filled(memory.data(), kLarge, 13));
        REQUIRE(madvise(memory.data() + kPage - reinterpret_cast<std::uintptr_t>(memory.data()) % kPage, kLarge / 2,
                        MADV_DONTNEED) == 0);
        _exit(0);
      }
      await_success(grandchild);
      REQUIRE(is_filled(memory.data(), kLarge, 13));
      _exit(0);
    }
    REQUIRE(is_filled(memory.data(), kLarge, 12));
    await_success(child);
    REQUIRE(is_filled(memory.data(), kLarge, 12) && is_filled(static_array, kLarge, 12));
  }
}

// libc's streams, and who uses them while others fork, live in far memory.
void forks_among_threads() {
  std::atomic<bool> done{false};
  std::vector<std::thread> all;
  for (int number = 0; number < 3; ++number) {
    all.emplace_back([&done] {
      while (!done) {
        std::map<int, std::string> strings;
        for (int i = 0; i < 2000; ++i) strings[i * 7919 % 2003] = std::string(200, static_cast<char>('a' + i % 26));
        FILE* const stream = std::fopen("/dev/null", "w");
        for (const auto& [key, text] : strings) std::fputs(text.c_str(), stream);
        std::fclose(stream);
      }
    });
  }
  std::vector<FILE*> streams;
  for (int i = 0; i < 100; ++i) streams.push_back(std::fopen("/dev/null", "w"));
  std::vector<std::uint8_t> memory(kLarge);
  for (unsigned round = 0; round < 10; ++round) {
    fill(memory.data(), kLarge, round);
    const pid_t child = fork();
    if (child == 0) {
      REQUIRE(is_filled(memory.data(), kLarge, round));
      for (FILE* const stream : streams) REQUIRE(std::fputs("text", stream) >= 0);
      _exit(0);
    }
    await_success(child);
  }
  done = true;
  for (std::thread& thread : all) thread.join();
}

void system_calls() {
  std::uint8_t* const from = map(kLarge);
  std::uint8_t* const to = map(kLarge);
  fill(from, kLarge, 14);
  FILE* const file = std::tmpfile();
  const int fd = fileno(file);
  for (std::size_t at = 0; at < kLarge; at += kLarge / 8) {
    REQUIRE(write(fd, from + at, kLarge / 8) == static_cast<ssize_t>(kLarge / 8));
  }
  REQUIRE(pread(fd, to, kLarge, 0) == static_cast<ssize_t>(kLarge));
  REQUIRE(std::memcmp(from, to, kLarge) == 0);
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  std::thread writer([&] {
    for (std::size_t at = 0; at < kLarge; at += kPage) {
      const iovec parts[2] = {{from + at, 100}, {from + at + 100, kPage - 100}};
      REQUIRE(writev(ends[1], parts, 2) == static_cast<ssize_t>(kPage));
    }
    close(ends[1]);
  });
  std::memset(to, 0, kLarge);
  std::size_t got = 0;
  for (ssize_t now = 0; (now = read(ends[0], to + got, kLarge - got)) > 0;) got += static_cast<std::size_t>(now);
  writer.join();
  REQUIRE(got == kLarge && std::memcmp(from, to, kLarge) == 0);
}

std::uint8_t* touched_by_handler;
volatile sig_atomic_t handled = 0;

void on_timer(int /*signal*/) {
  const auto at = static_cast<std::size_t>(handled) * 977 * kPage % kLarge;
  touched_by_handler[at] = static_cast<std::uint8_t>(touched_by_handler[at] + 1);
  void* const memory = mmap(nullptr, kLarge / 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  *static_cast<std::uint8_t*>(memory) = 1;
  munmap(memory, kLarge / 8);
  handled = handled + 1;
}

void signals() {
  touched_by_handler = map(kLarge);
  struct sigaction action {};
  action.sa_handler = on_timer;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, nullptr);
  const itimerval often{{0, 2000}, {0, 2000}};
  setitimer(ITIMER_REAL, &often, nullptr);
  std::vector<std::uint8_t> memory(kLarge);
  for (unsigned round = 0; round < 1000 && (round < 5 || handled < 20); ++round) {
    fill(memory.data(), kLarge, round);
    munmap(map(kLarge / 4), kLarge / 4);
    REQUIRE(is_filled(memory.data(), kLarge, round));
  }
  const itimerval never{};
  setitimer(ITIMER_REAL, &never, nullptr);
  REQUIRE(handled >= 20);
  std::size_t sum = 0;
  for (std::size_t at = 0; at < kLarge; at += kPage) sum += touched_by_handler[at];
  REQUIRE(sum == static_cast<std::size_t>(handled));
}

// Nothing of ours is to be seen, or to be closed.
void descriptors() {
  std::vector<std::uint8_t> memory(kLarge);
  fill(memory.data(), kLarge, 15);
  DIR* const directory = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(directory)) {
    char name[256] = "";
    static_cast<void>(readlinkat(dirfd(directory), entry->d_name, name, sizeof name - 1));
    REQUIRE(std::strstr(name, "socket:") == nullptr && std::strstr(name, "userfault") == nullptr);
  }
  closedir(directory);
  REQUIRE(close_range(3, ~0U, 0) == 0);
  REQUIRE(is_filled(memory.data(), kLarge, 15));
}

extern "C" char** environ;

void spawns() {
  std::vector<std::uint8_t> memory(kLarge);
  fill(memory.data(), kLarge, 16);
  std::string program = "/proc/self/exe";
  std::string what = "statics";
  char* const arguments[] = {program.data(), what.data(), nullptr};
  pid_t child = 0;
  REQUIRE(posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments, environ) == 0);
  await_success(child);
  child = vfork();
  if (child == 0) {
    execve(program.c_str(), arguments, environ);
    _exit(1);
  }
  await_success(child);
  REQUIRE(is_filled(memory.data(), kLarge, 16));
}

void frees() {
  constexpr std::size_t kSmall = std::size_t{1} << 20U;
  std::vector<std::uint8_t*> all(300);
  for (std::uint8_t*& one : all) {
    one = map(kSmall);
    *one = 1;
  }
  for (std::uint8_t* const one : all) REQUIRE(munmap(one, kSmall) == 0);
  for (std::uint8_t*& one : all) {
    one = map(kSmall);
    REQUIRE(*one == 0);
  }
}

void runs_out() {
  std::vector<void*> all;
  const auto take = [] { return mmap(nullptr, kLarge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); };
  void* one = nullptr;
  while ((one = take()) != MAP_FAILED) all.push_back(one);
  REQUIRE(errno == ENOMEM && all.size() >= 4 && all.size() <= 8);
  REQUIRE(malloc(8 * kLarge) == nullptr);
  fill(static_cast<std::uint8_t*>(all.back()), kLarge, 18);
  REQUIRE(munmap(all.back(), kLarge) == 0);
  one = take();
  REQUIRE(one != MAP_FAILED && is_zero(static_cast<std::uint8_t*>(one), kLarge));
  // Addresses alone are not limited by that.
  REQUIRE(mmap(nullptr, 64 * kLarge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) != MAP_FAILED);
}

void sleeps() {
  std::vector<std::uint8_t> memory(kLarge);
  fill(memory.data(), kLarge, 17);
  std::puts("ready");
  std::fflush(stdout);
  for (;;) REQUIRE(is_filled(memory.data(), kLarge, 17));
}

}  // namespace

int main(int count, char** arguments) {
  const std::map<std::string, std::function<void()>> all{{"statics", statics},
                                                         {"malloc", malloc_family},
                                                         {"unmapped_parts", unmapped_parts},
                                                         {"remapped", remapped},
                                                         {"advised", advised},
                                                         {"mapped_over", mapped_over},
                                                         {"protected_pages", protected_pages},
                                                         {"threads", threads},
                                                         {"forks", forks},
                                                         {"forks_among_threads", forks_among_threads},
                                                         {"system_calls", system_calls},
                                                         {"signals", signals},
                                                         {"descriptors", descriptors},
                                                         {"spawns", spawns},
                                                         {"frees", frees},
                                                         {"runs_out", runs_out},
                                                         {"sleeps", sleeps}};
  if (count != 2 || !all.contains(arguments[1])) return 2;
  all.at(arguments[1])();
}
