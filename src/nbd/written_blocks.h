// written_blocks.h — which blocks of a device may hold something: the rest is known to be zeros.
//
// Guarantee, if a writer sets after writing, and a discard clears before it begins: a block that is not set is zeros
// once no operation on it is under way, however writes and discards of one block overlapped.
//
// Thread safety: every call, from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace farside::nbd {

class WrittenBlocks {
 public:
  static constexpr std::uint64_t kBlockBytes = 4096;

  /// None of `bytes` is written.
  explicit WrittenBlocks(std::uint64_t bytes) : bytes_(bytes), words_((bytes / kBlockBytes + 1 + 63) / 64) {}

  /// All blocks that have a part in it.
  void set(std::uint64_t offset, std::uint64_t bytes);
  /// All blocks that lie in it as a whole. The last one of the device may be shorter.
  void clear(std::uint64_t offset, std::uint64_t bytes);

  struct Run {
    std::uint64_t bytes;
    bool written;
  };
  /// The longest run of one kind at `offset`, up to `end`.
  [[nodiscard]] Run run_at(std::uint64_t offset, std::uint64_t end) const;

 private:
  [[nodiscard]] bool is_set(std::uint64_t block) const;

  const std::uint64_t bytes_;
  std::vector<std::atomic<std::uint64_t>> words_;  // a bit for each block
};

}  // namespace farside::nbd
