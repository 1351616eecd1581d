#include "writers.h"

#include <atomic>

#include <sys/stat.h>

#include "system_call.h"

namespace farside::cache_preload {

namespace {

// A bit for each inode, whatever its file system. None is taken back: descriptors may be copied and sent anywhere.
constexpr unsigned kBits = 15;
constinit std::atomic<std::uint64_t> written[(1U << kBits) / 64];

std::uint64_t hash_of(std::uint64_t inode) { return inode * 0x9e3779b97f4a7c15U >> (64 - kBits); }
std::atomic<std::uint64_t>& word_of(std::uint64_t hash) { return written[hash / 64]; }
std::uint64_t bit_of(std::uint64_t hash) { return std::uint64_t{1} << (hash % 64); }

}  // namespace

void note_writer(int fd) {
  struct stat64 found {};
  if (system_call(SYS_fstat, fd, &found) != 0 || !S_ISREG(found.st_mode)) return;
  const std::uint64_t hash = hash_of(found.st_ino);
  word_of(hash).fetch_or(bit_of(hash), std::memory_order_release);
}

bool may_be_written_here(std::uint64_t inode) {
  const std::uint64_t hash = hash_of(inode);
  return (word_of(hash).load(std::memory_order_acquire) & bit_of(hash)) != 0;
}

}  // namespace farside::cache_preload
