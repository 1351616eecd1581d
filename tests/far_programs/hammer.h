// hammer.h — memory whose every byte is known, for a program that knows nothing of farside.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hammer {

inline constexpr std::size_t kPage = 4096;
inline constexpr std::size_t kPages = 12288;  // 48 MiB: several times the budget of the tests
inline constexpr std::size_t kWords = kPage / sizeof(std::uint64_t);

[[noreturn]] inline void fail(const char* what, std::size_t page) {
  std::fprintf(stderr, "hammer: %s, page %zu\n", what, page);
  std::fflush(stderr);
  ::_exit(1);
}

inline void require(bool right, const char* what, std::size_t page = 0) {
  if (!right) fail(what, page);
}

using Page = std::uint64_t[kWords];

inline Page* map(std::size_t pages, void* at = nullptr, int flags = 0) {
  void* mapped = ::mmap(at, pages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  require(mapped != MAP_FAILED, "mmap failed");
  return static_cast<Page*>(mapped);
}

inline std::uint64_t value(std::size_t page, std::uint64_t version) {
  return (page + 1) * 0x9e3779b97f4a7c15U ^ version;
}

inline void write_page(Page* area, std::size_t page, std::uint64_t version) {
  for (const std::size_t word : {std::size_t{0}, kWords / 2, kWords - 1}) area[page][word] = value(page, version);
}

inline void write_all(Page* area, std::uint64_t version, std::size_t pages = kPages) {
  for (std::size_t page = 0; page < pages; ++page) write_page(area, page, version);
}

inline void check_page(Page* area, std::size_t page, std::uint64_t version, const char* what) {
  for (const std::size_t word : {std::size_t{0}, kWords / 2, kWords - 1})
    require(area[page][word] == value(page, version), what, page);
  require(area[page][1] == 0, what, page);
}

inline void check_all(Page* area, std::uint64_t version, const char* what, std::size_t pages = kPages) {
  for (std::size_t page = 0; page < pages; ++page) check_page(area, page, version, what);
}

inline std::uint64_t next(std::uint64_t& state) {
  state = state * 6364136223846793005U + 1442695040888963407U;
  return state >> 33U;
}

inline void wait_for(pid_t child, const char* what) {
  int status = 0;
  require(::waitpid(child, &status, 0) == child && status == 0, what);
}

// What it does by mmap and its relatives; hammer.cc has the rest.
void file_at_the_end();
void files_mapped_over();
void mappings();
void pins();
void refused_mappings();
void too_many_mappings();

}  // namespace hammer
