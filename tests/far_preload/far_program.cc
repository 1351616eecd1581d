// A program that knows nothing of far memory. Its argument says what it does with its memory; it checks all that it
// gets back, and exits with 0 when all was right.
#include "tests/far_preload/far_program.h"

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

#include <fcntl.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace far_program {

std::uint8_t static_array[kLarge];

namespace {

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
  REQUIRE(madvise(memory, kLarge, 102 /* MADV_GUARD_INSTALL */) == -1 && errno == EINVAL);
  const int self = static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0));
  const iovec all{memory, kLarge};
  REQUIRE(process_madvise(self, &all, 1, MADV_DONTNEED, 0) == -1 && errno == EINVAL);
  REQUIRE(process_madvise(self, &all, 1, MADV_COLD, 0) == static_cast<ssize_t>(kLarge));
  REQUIRE(close(self) == 0);
  REQUIRE(is_filled(memory, kLarge, 6));
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

void attached_over() {
  std::uint8_t* const memory = map(kLarge);
  fill(memory, kLarge, 8);
  const int segment = shmget(IPC_PRIVATE, 16 * kPage, IPC_CREAT | 0600);
  REQUIRE(segment >= 0);
  std::uint8_t* const place = memory + 32 * kPage;
  auto* const elsewhere = static_cast<std::uint8_t*>(shmat(segment, nullptr, 0));
  REQUIRE(shmat(segment, place, 0) == MAP_FAILED && errno == EINVAL);
  REQUIRE(shmat(segment, place + 1, SHM_REMAP | SHM_RND) == place);
  REQUIRE(shmctl(segment, IPC_RMID, nullptr) == 0);
  fill(place, 16 * kPage, 11);
  std::uint8_t* const more = map(kLarge);  // makes others leave
  fill(more, kLarge, 9);
  REQUIRE(is_filled(elsewhere, 16 * kPage, 11) && is_filled(place, 16 * kPage, 11));
  REQUIRE(memory[61 * 900] == pattern(61 * 900, 8) && memory[61 * 4000] == pattern(61 * 4000, 8));
  REQUIRE(shmdt(place) == 0 && shmdt(elsewhere) == 0);
  const int missing = shmget(IPC_PRIVATE, kPage, IPC_CREAT | 0600);
  REQUIRE(shmctl(missing, IPC_RMID, nullptr) == 0);
  REQUIRE(shmat(missing, memory, SHM_REMAP) == MAP_FAILED && errno == EINVAL);
  REQUIRE(munmap(memory, kLarge) == 0);
  REQUIRE(is_filled(more, kLarge, 9));
}

// Refused where there are huge pages, and where there are none.
void huge_pages_over() {
  constexpr std::size_t kHuge = std::size_t{2} << 20U;
  std::uint8_t* const memory = map(kLarge);
  fill(memory, kLarge, 8);
  std::uint8_t* const aligned = memory + kHuge - reinterpret_cast<std::uintptr_t>(memory) % kHuge;
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_HUGETLB;
  const int segment = shmget(IPC_PRIVATE, kHuge, IPC_CREAT | SHM_HUGETLB | 0600);
  for (std::uint8_t* const place : {aligned, aligned + kPage}) {
    REQUIRE(mmap(place, kHuge, PROT_READ | PROT_WRITE, kFlags, -1, 0) == MAP_FAILED);
    REQUIRE(shmat(segment, place, SHM_REMAP) == MAP_FAILED);
  }
  REQUIRE(segment < 0 || shmctl(segment, IPC_RMID, nullptr) == 0);
  REQUIRE(is_filled(memory, kLarge, 8));
  REQUIRE(munmap(memory, kLarge) == 0);
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

}  // namespace far_program

int main(int count, char** arguments) {
  using namespace far_program;
  const std::map<std::string, std::function<void()>> all{{"statics", statics},
                                                         {"statics_discarded", statics_discarded},
                                                         {"statics_unmapped", statics_unmapped},
                                                         {"statics_mapped_over", statics_mapped_over},
                                                         {"statics_remapped", statics_remapped},
                                                         {"statics_pinned", statics_pinned},
                                                         {"locked_mappings", locked_mappings},
                                                         {"malloc", malloc_family},
                                                         {"unmapped_parts", unmapped_parts},
                                                         {"remapped", remapped},
                                                         {"advised", advised},
                                                         {"mapped_over", mapped_over},
                                                         {"attached_over", attached_over},
                                                         {"huge_pages_over", huge_pages_over},
                                                         {"protected_pages", protected_pages},
                                                         {"threads", threads},
                                                         {"forks", forks},
                                                         {"executes", executes},
                                                         {"forks_among_threads", forks_among_threads},
                                                         {"forks_beside_libc", forks_beside_libc},
                                                         {"forks_past_hooks", forks_past_hooks},
                                                         {"futexes", futexes},
                                                         {"system_calls", system_calls},
                                                         {"signals", signals},
                                                         {"descriptors", descriptors},
                                                         {"without_descriptors", without_descriptors},
                                                         {"without_any_descriptors", without_any_descriptors},
                                                         {"direct_reads", direct_reads},
                                                         {"direct_writes", direct_writes},
                                                         {"cancelled_reads", cancelled_reads},
                                                         {"file_reads", file_reads},
                                                         {"outside", outside},
                                                         {"overlay_reads", overlay_reads},
                                                         {"refused_calls", refused_calls},
                                                         {"spawns", spawns},
                                                         {"frees", frees},
                                                         {"runs_out", runs_out},
                                                         {"sleeps", sleeps}};
  if (count != 2 || !all.contains(arguments[1])) return 2;
  all.at(arguments[1])();
}
