// What a program that knows nothing of far memory does with its static arrays by mmap and its relatives. This file is
// the last that is linked: its array ends where the program's static memory does.
#include <cerrno>
#include <cstdint>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/far_preload/far_program.h"

extern "C" char _end[];  // NOLINT(bugprone-reserved-identifier): the linker's

namespace far_program {

alignas(kPage) std::uint8_t last_array[kLarge];

namespace {

constexpr std::size_t kPages = kLarge / kPage;

std::uint8_t* page(std::size_t number) { return last_array + number * kPage; }

// A pattern that tells pages apart.
void fill_pages(std::size_t from, std::size_t to) {
  for (; from < to; ++from) fill(page(from), kPage, static_cast<unsigned>(from));
}
bool are_filled(std::size_t from, std::size_t to) {
  for (; from < to; ++from) {
    if (!is_filled(page(from), kPage, static_cast<unsigned>(from))) return false;
  }
  return true;
}
bool are_zero(std::size_t from, std::size_t to) { return is_zero(page(from), (to - from) * kPage); }

void make_others_leave() {
  std::uint8_t* const more = map(2 * kLarge);
  fill(more, 2 * kLarge, 1);
  REQUIRE(munmap(more, 2 * kLarge) == 0);
}

// Something else of the program's, right behind its static memory.
std::uint8_t* map_behind(std::size_t pages) {
  REQUIRE(page(kPages) == reinterpret_cast<std::uint8_t*>(_end));
  void* const behind = mmap(page(kPages), pages * kPage, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  REQUIRE(behind == page(kPages));
  fill(static_cast<std::uint8_t*>(behind), pages * kPage, 50);
  return static_cast<std::uint8_t*>(behind);
}

void in_a_child(bool (*is_right)()) {
  const pid_t child = fork();
  if (child == 0) _exit(is_right() ? 0 : 1);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child && status == 0);
}

}  // namespace

void statics_discarded() {
  fill_pages(0, kPages);
  make_others_leave();
  REQUIRE(madvise(page(100), 50 * kPage, MADV_DONTNEED) == 0);
  REQUIRE(are_zero(100, 150) && are_filled(0, 100) && are_filled(150, kPages));
  fill_pages(100, 150);
  REQUIRE(are_filled(0, kPages));
  REQUIRE(madvise(page(kPages - 30), 20 * kPage, MADV_FREE) == 0);
  fill_pages(kPages - 30, kPages - 10);
  make_others_leave();
  REQUIRE(are_filled(0, kPages));

  std::uint8_t* const behind = map_behind(16);
  REQUIRE(madvise(page(kPages - 8), 16 * kPage, MADV_DONTNEED) == 0);
  REQUIRE(are_zero(kPages - 8, kPages) && is_zero(behind, 8 * kPage) && behind[61 * 1000] == pattern(61 * 1000, 50));
  REQUIRE(are_filled(0, kPages - 8));
  REQUIRE(madvise(page(0), kLarge, MADV_DONTNEED) == 0 && are_zero(0, kPages));
}

void statics_unmapped() {
  fill_pages(0, kPages);
  make_others_leave();
  REQUIRE(munmap(page(10), 20 * kPage) == 0);
  REQUIRE(munmap(page(10), 20 * kPage) == 0);
  REQUIRE(are_filled(0, 10) && are_filled(30, kPages));
  std::vector<std::uint8_t*> others;  // some of which get what was given back
  for (unsigned i = 0; i < 20; ++i) {
    others.push_back(map(kLarge / 8));
    REQUIRE(is_zero(others.back(), kLarge / 8));
    fill(others.back(), kLarge / 8, i);
  }
  REQUIRE(are_filled(0, 10) && are_filled(30, kPages));
  for (unsigned i = 0; i < 20; ++i) REQUIRE(is_filled(others[i], kLarge / 8, i));

  map_behind(16);
  REQUIRE(munmap(page(kPages - 8), 16 * kPage) == 0);
  map_behind(8);  // it was there, and is gone
  REQUIRE(are_filled(30, kPages - 8));
  REQUIRE(munmap(page(100), kLarge - 100 * kPage) == 0);
  make_others_leave();
  REQUIRE(are_filled(30, 100));
}

void statics_mapped_over() {
  const auto cover = [](std::size_t first, std::size_t count, int flags, int file) {
    void* const mapped =
        mmap(page(first), count * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | flags, file, 0);
    REQUIRE(mapped == page(first));
  };
  fill_pages(0, kPages);
  make_others_leave();
  cover(40, 20, MAP_ANONYMOUS, -1);
  REQUIRE(are_zero(40, 60) && are_filled(0, 40) && are_filled(60, kPages));
  const int file = memfd_create("file", 0);
  REQUIRE(ftruncate(file, 20 * kPage) == 0 && pwrite(file, "text", 4, 0) == 4);
  cover(200, 20, 0, file);
  REQUIRE(page(200)[0] == 't' && page(200)[3] == 't' && are_zero(201, 220));
  fill_pages(40, 60);
  fill_pages(200, 220);
  make_others_leave();
  REQUIRE(are_filled(0, kPages));
  in_a_child([] { return are_filled(0, kPages); });

  std::uint8_t* const behind = map_behind(16);
  cover(kPages - 8, 16, MAP_ANONYMOUS, -1);
  REQUIRE(are_zero(kPages - 8, kPages) && is_zero(behind, 8 * kPage) && are_filled(0, kPages - 8));
  fill_pages(kPages - 8, kPages);
  make_others_leave();
  REQUIRE(are_filled(0, kPages));
  in_a_child([] { return are_filled(0, kPages); });
  cover(0, kPages, MAP_ANONYMOUS, -1);
  REQUIRE(are_zero(0, kPages));
}

void statics_remapped() {
  fill_pages(0, kPages);
  make_others_leave();
  auto* const moved = static_cast<std::uint8_t*>(mremap(page(300), 50 * kPage, 100 * kPage, MREMAP_MAYMOVE));
  REQUIRE(moved != MAP_FAILED && moved != page(300) && is_zero(moved + 50 * kPage, 50 * kPage));
  for (unsigned i = 0; i < 50; ++i) REQUIRE(is_filled(moved + i * kPage, kPage, 300 + i));
  REQUIRE(are_filled(0, 300) && are_filled(350, kPages));
  constexpr int kToPlace = MREMAP_MAYMOVE | MREMAP_FIXED;
  REQUIRE(mremap(moved, 50 * kPage, 50 * kPage, kToPlace, page(300)) == page(300));
  REQUIRE(are_filled(0, kPages));
  REQUIRE(mremap(page(400), 20 * kPage, 10 * kPage, 0) == page(400) && are_filled(400, 410) && are_filled(420, kPages));
  map_behind(16);  // without farside the kernel may make one mapping of the two
  REQUIRE(mremap(page(kPages - 8), 16 * kPage, 32 * kPage, MREMAP_MAYMOVE) == MAP_FAILED && errno == EFAULT);
  REQUIRE(are_filled(420, kPages));
  auto* const whole = static_cast<std::uint8_t*>(mremap(page(500), kLarge - 500 * kPage, kLarge, MREMAP_MAYMOVE));
  REQUIRE(whole != MAP_FAILED && is_filled(whole, kPage, 500) && are_filled(420, 500));
}

bool are_pages_here(const void* memory, std::size_t count) {
  std::vector<std::uint64_t> entries(count);
  const int map = open("/proc/self/pagemap", O_RDONLY);
  const auto bytes = static_cast<ssize_t>(count * 8);
  REQUIRE(pread(map, entries.data(), count * 8, reinterpret_cast<off_t>(memory) / 4096 * 8) == bytes);
  close(map);
  return std::all_of(entries.begin(), entries.end(), [](std::uint64_t entry) { return entry >> 63U != 0; });
}

// What is pinned stays, whatever else comes, and whatever is advised.
void statics_pinned() {
  const auto are_here = [](std::size_t from, std::size_t to) { return are_pages_here(page(from), to - from); };
  fill_pages(0, kPages);
  make_others_leave();
  REQUIRE(!are_here(50, 114));
  REQUIRE(mlock(page(50) + 1, 64 * kPage - 1) == 0);
  make_others_leave();
  REQUIRE(are_here(50, 114) && are_filled(0, kPages));
  for (const int advice : {MADV_RANDOM, MADV_SEQUENTIAL, MADV_COLD, MADV_PAGEOUT, MADV_NORMAL}) {
    REQUIRE(madvise(page(40), 80 * kPage, advice) == 0);
  }
  make_others_leave();
  REQUIRE(are_here(50, 114));
  for (const int advice : {MADV_DONTNEED, MADV_FREE}) {
    REQUIRE(madvise(page(113), kPage, advice) == -1 && errno == EINVAL);
  }
  REQUIRE(are_filled(0, kPages));
  REQUIRE(mlock(page(0), kLarge) == -1 && errno == ENOMEM);
  REQUIRE(munlock(page(50), 64 * kPage) == 0);
  fill_pages(200, kPages);
  make_others_leave();
  REQUIRE(!are_here(50, 114) && are_filled(0, kPages));
  REQUIRE(madvise(page(50), kPage, MADV_DONTNEED) == 0 && are_zero(50, 51));
}

// Memory that the kernel is asked to lock is not far: no device may write to a page that has left.
void locked_mappings() {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED;
  void* const locked = mmap(nullptr, kLarge, PROT_READ | PROT_WRITE, flags, -1, 0);
  REQUIRE(locked != MAP_FAILED);
  make_others_leave();
  REQUIRE(are_pages_here(locked, kLarge / kPage));
}

}  // namespace far_program
