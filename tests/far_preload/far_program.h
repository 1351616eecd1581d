// far_program.h — memory of a program that knows nothing of far memory, and what it checks of it.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace far_program {

inline constexpr std::size_t kPage = 4096;
inline constexpr std::size_t kLarge = std::size_t{8} << 20U;
inline constexpr std::size_t kKnownBytes = std::size_t{2} << 20U;  ///< of a file whose words are 1, 2, 3 ...
inline constexpr int kCannotBeTried = 77;  ///< exit code: this machine does not allow it; why is on standard output

#define REQUIRE(condition) require(condition, #condition, __FILE__, __LINE__)
inline void require(bool good, const char* what, const char* file, int line) {
  if (good) return;
  std::fprintf(stderr, "%s:%d: not so: %s (errno %d)\n", file, line, what, errno);
  _exit(1);
}

inline std::uint8_t pattern(std::size_t at, unsigned seed) {
  return static_cast<std::uint8_t>(at * 31 + at / kPage + seed);
}

inline void fill(std::uint8_t* memory, std::size_t bytes, unsigned seed) {
  for (std::size_t at = 0; at < bytes; at += 61) memory[at] = pattern(at, seed);
}

inline bool is_filled(const std::uint8_t* memory, std::size_t bytes, unsigned seed) {
  for (std::size_t at = 0; at < bytes; at += 61) {
    if (memory[at] != pattern(at, seed)) return false;
  }
  return true;
}

inline bool is_zero(const std::uint8_t* memory, std::size_t bytes) {
  return std::all_of(memory, memory + bytes, [](std::uint8_t byte) { return byte == 0; });
}

inline std::uint8_t* map(std::size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  return static_cast<std::uint8_t*>(memory);
}

inline void await_success(pid_t child) {
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  if (status != 0) std::fprintf(stderr, "a child ended with status %x\n", status);
  REQUIRE(status == 0);
}

extern std::uint8_t static_array[kLarge];

// What it does with threads, other processes and signals; far_program.cc has the rest.
void cancelled_reads();
void descriptors();
void direct_reads();
void direct_writes();
void executes();
void file_reads();
void forks();
void forks_among_threads();
void forks_beside_libc();
void forks_past_hooks();
void futexes();
void outside();
void overlay_reads();
void refused_calls();
void signals();
void spawns();
void threads();
void without_descriptors();
void without_any_descriptors();
void locked_mappings();
void statics_discarded();
void statics_mapped_over();
void statics_pinned();
void statics_remapped();
void statics_unmapped();

}  // namespace far_program
