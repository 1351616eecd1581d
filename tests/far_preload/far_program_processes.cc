// What a program that knows nothing of far memory does while others use the same memory: its threads, its children, its
// signal handlers.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <dirent.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/far_preload/far_program.h"

namespace far_program {

namespace {

std::uint8_t* touched_by_handler;
volatile sig_atomic_t handled = 0;

constexpr std::size_t kThreads = 8;
constexpr std::size_t kKeys = 64;  // libc keeps 32 in a thread itself, and allocates a block for the others
constexpr std::size_t kObjects = 400;
constexpr std::size_t kObjectBytes = 512;  // as large as that block

/// What one thread has when its process forks.
struct Belongings {
  pthread_key_t* keys;
  std::vector<std::uint8_t*> objects;
  std::uint8_t* own;  ///< its thread_local array
};
thread_local std::uint8_t own_array[kObjectBytes];
std::atomic<std::size_t> parked{0};

void* have_things(void* argument) {
  auto& belongings = *static_cast<Belongings*>(argument);
  belongings.own = own_array;
  fill(own_array, sizeof own_array, 20);
  for (std::size_t i = 0; i < kObjects; ++i) {
    auto* const object = static_cast<std::uint8_t*>(std::malloc(kObjectBytes));
    fill(object, kObjectBytes, 19);
    belongings.objects.push_back(object);
    if (i != kObjects / 2) continue;
    for (std::size_t key = 0; key < kKeys; ++key) REQUIRE(pthread_setspecific(belongings.keys[key], object) == 0);
  }
  ++parked;
  for (;;) pause();
}

void check(const Belongings& belongings) {
  REQUIRE(is_filled(belongings.own, kObjectBytes, 20));
  for (const std::uint8_t* const object : belongings.objects) REQUIRE(is_filled(object, kObjectBytes, 19));
}

volatile sig_atomic_t forbidden = 0;
void on_forbidden_call(int /*signal*/) { forbidden = forbidden + 1; }

// What a program does with this signal a fork does not change.
void check_forbidden_calls(int expected) {
  raise(SIGSYS);
  sigset_t blocked;
  REQUIRE(forbidden == expected && pthread_sigmask(SIG_SETMASK, nullptr, &blocked) == 0);
  REQUIRE(sigismember(&blocked, SIGSYS) == 0 && sigismember(&blocked, SIGUSR1) == 1);
}

// A thread of a child that gets the stack of one of its parent's.
void* have_nothing(void* argument) {
  for (std::size_t key = 0; key < kKeys; ++key) {
    REQUIRE(pthread_getspecific(static_cast<Belongings*>(argument)->keys[key]) == nullptr);
  }
  return nullptr;
}

void on_timer(int /*signal*/) {
  const auto at = static_cast<std::size_t>(handled) * 977 * kPage % kLarge;
  touched_by_handler[at] = static_cast<std::uint8_t>(touched_by_handler[at] + 1);
  void* const memory = mmap(nullptr, kLarge / 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  *static_cast<std::uint8_t*>(memory) = 1;
  munmap(memory, kLarge / 8);
  handled = handled + 1;
}

}  // namespace

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

namespace {

pthread_attr_t with_stack(std::size_t bytes) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  void* stack = nullptr;
  REQUIRE(posix_memalign(&stack, kPage, bytes) == 0);
  REQUIRE(pthread_attr_setstack(&attributes, stack, bytes) == 0);
  return attributes;
}

void* call(void* function) {
  (*static_cast<std::function<void()>*>(function))();
  return nullptr;
}

void fork_and_check(const Belongings* all, std::vector<std::uint8_t>& more, unsigned round) {
  fill(more.data(), more.size(), round);  // makes others leave
  const pid_t child = fork();
  if (child == 0) {
    for (std::size_t i = 0; i < kThreads; ++i) check(all[i]);
    pthread_t thread;
    auto* const keys = const_cast<Belongings*>(all);
    REQUIRE(pthread_create(&thread, nullptr, have_nothing, keys) == 0 && pthread_join(thread, nullptr) == 0);
    REQUIRE(is_filled(more.data(), more.size(), round));
    check_forbidden_calls(static_cast<int>(round) + 1);
    _exit(0);
  }
  await_success(child);
  check_forbidden_calls(static_cast<int>(round) + 1);
}

}  // namespace

// In the child libc clears what the parent's threads had: their keys' values, and the list in which those with stacks
// of the program's own are. Beside it lie the program's objects.
void forks_beside_libc() {
  pthread_key_t keys[kKeys];
  for (pthread_key_t& key : keys) REQUIRE(pthread_key_create(&key, nullptr) == 0);
  Belongings all[kThreads];
  constexpr std::size_t kStackBytes = 64 * kPage;
  for (std::size_t i = 0; i < kThreads; ++i) {
    all[i].keys = keys;
    const pthread_attr_t attributes = with_stack(kStackBytes);
    pthread_t thread;
    REQUIRE(pthread_create(&thread, i % 2 == 0 ? &attributes : nullptr, have_things, &all[i]) == 0);
  }
  while (parked != kThreads) usleep(1000);
  std::signal(SIGSYS, on_forbidden_call);
  sigset_t user;
  sigemptyset(&user);
  sigaddset(&user, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &user, nullptr);
  std::vector<std::uint8_t> more(2 * kLarge);
  unsigned round = 0;
  for (; round < 3; ++round) fork_and_check(all, more, round);

  // Of a thread whose own stack is far.
  std::function<void()> last = [&] { fork_and_check(all, more, round); };
  pthread_t thread;
  const pthread_attr_t attributes = with_stack(kStackBytes);
  REQUIRE(pthread_create(&thread, &attributes, call, &last) == 0 && pthread_join(thread, nullptr) == 0);
  for (const Belongings& belongings : all) check(belongings);
  _exit(0);
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

namespace {

// What it does needs none of its own.
void use_up_descriptors(rlim_t hard) {
  constexpr rlim_t kSoft = 64;
  const rlimit limit{kSoft, std::max(hard, kSoft)};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  while (dup(STDERR_FILENO) >= 0) {
  }
  REQUIRE(errno == EMFILE);
}

void discard_half(std::uint8_t* memory) {
  fill(memory, kLarge, 17);
  REQUIRE(madvise(memory, kLarge / 2, MADV_DONTNEED) == 0);
  REQUIRE(is_zero(memory, kLarge / 2) && memory[kLarge / 2 / 61 * 61 + 61] == pattern(kLarge / 2 / 61 * 61 + 61, 17));
  REQUIRE(munmap(map(kLarge), kLarge) == 0);
}

}  // namespace

// While the hard limit allows more.
void without_descriptors() {
  std::uint8_t* const memory = map(kLarge);
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  use_up_descriptors(before.rlim_max);
  discard_half(memory);
  fill(memory, kLarge, 18);
  const pid_t child = fork();
  if (child == 0) {
    REQUIRE(is_filled(memory, kLarge, 18));
    discard_half(memory);
    _exit(0);
  }
  await_success(child);
  REQUIRE(is_filled(memory, kLarge, 18));
  rlimit after{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &after) == 0 && after.rlim_cur == 64);
}

void without_any_descriptors() {
  std::uint8_t* const memory = map(kLarge);
  use_up_descriptors(0);
  discard_half(memory);
  for (int free = 0; free < 3; ++free) {
    fill(memory, kLarge, 18);
    REQUIRE(fork() == -1 && errno == EAGAIN);
    REQUIRE(is_filled(memory, kLarge, 18));
    close(63 - free);
  }
  const pid_t child = fork();
  if (child == 0) {
    REQUIRE(is_filled(memory, kLarge, 18));
    _exit(0);
  }
  await_success(child);
}

// From an allocator of its own.
void outside() {
  constexpr std::size_t kBytes = 20 * kLarge;
  void* const memory = sbrk(kBytes);
  REQUIRE(memory != reinterpret_cast<void*>(-1));  // NOLINT(performance-no-int-to-ptr): what sbrk says
  std::memset(memory, 1, kBytes);
  for (;;) pause();
}

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

// By the functions that take arguments one by one, which all arrive.
void executes() {
  const char* const script = "test \"$0 $1 $2 $#\" = 'a b c 2' && test \"$WORD\" = word";
  const char* environment[] = {"WORD=word", nullptr};
  REQUIRE(setenv("WORD", "word", 1) == 0);
  for (int way = 0; way < 3; ++way) {
    const pid_t child = fork();
    if (child == 0) {
      if (way == 0) execl("/bin/sh", "sh", "-c", script, "a", "b", "c", nullptr);
      if (way == 1) execlp("sh", "sh", "-c", script, "a", "b", "c", nullptr);
      if (way == 2) execle("/bin/sh", "sh", "-c", script, "a", "b", "c", nullptr, environment);
      _exit(1);
    }
    await_success(child);
  }
  errno = 0;
  REQUIRE(execl("/no/such/program", "program", nullptr) == -1 && errno == ENOENT);
}

}  // namespace far_program
