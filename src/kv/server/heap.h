// heap.h — which parts of a server's memory are taken. Knows offsets alone; what it keeps is private to the server.
//
// Small blocks are carved, by size, from chunks of 64 KiB, which go back when nothing of them is taken. Larger ones are
// whole pages, the smallest free piece that fits. So are small ones when there is no room for a chunk.
//
// Cost: O(log n) of the number of free pieces; a bit for each small block, and four bytes for each page.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace farside::kv {

class Heap {
 public:
  static constexpr std::uint64_t kPageBytes = 1024;
  static constexpr std::uint64_t kChunkPages = 64;
  static constexpr std::uint64_t kMaxSmallBytes = 4096;

  /// A heap of the whole pages in [`begin`, `end`).
  Heap(std::uint64_t begin, std::uint64_t end);

  /// Whose memory the last of it is: what makes room must not fail for want of it.
  enum class For : std::uint8_t { keeping, making_room };

  /// Takes `bytes` and returns their offset: a multiple of 16, and of 64 if `bytes` is one. None: there is no room.
  [[nodiscard]] std::optional<std::uint64_t> take(std::uint64_t bytes, For purpose = For::keeping);
  /// Takes the block that another heap of the same bounds has taken there; `chunk`: that heap's chunk_of. False: it is
  /// taken here, or cannot be a block.
  [[nodiscard]] bool take_at(std::uint64_t offset, std::uint64_t bytes, std::uint64_t chunk);
  /// Returns the begin of the chunk from which the block at `offset` is carved, plus the number of its size class,
  /// which is less than kPageBytes; 0: from none, it is whole pages.
  [[nodiscard]] std::uint64_t chunk_of(std::uint64_t offset) const;
  /// `bytes` as they were asked for.
  void give_back(std::uint64_t offset, std::uint64_t bytes);

  [[nodiscard]] std::uint64_t bytes_total() const noexcept { return pages_total_ * kPageBytes; }
  /// In blocks that are taken, with what rounding adds to each.
  [[nodiscard]] std::uint64_t bytes_used() const noexcept { return bytes_used_; }

 private:
  struct Chunk {
    std::uint64_t first_page;
    std::uint32_t size_class;
    std::uint32_t blocks_taken;
    std::size_t place;                 ///< among those of its class that have room
    std::vector<std::uint64_t> taken;  ///< one bit a block
  };

  [[nodiscard]] std::optional<std::uint64_t> take_small(std::uint64_t size_class, For purpose);
  /// Takes a block of a larger class than is needed.
  [[nodiscard]] std::optional<std::uint64_t> take_larger(std::uint64_t size_class);
  [[nodiscard]] std::uint64_t take_block_of(std::uint64_t size_class);
  [[nodiscard]] bool take_small_at(std::uint64_t offset, std::uint64_t size_class, std::uint64_t first_page);
  void take_block(Chunk& chunk, std::uint64_t block);
  void give_back_small(std::uint64_t chunk_number, std::uint64_t offset);
  [[nodiscard]] bool make_chunk(std::uint64_t size_class, For purpose);
  /// Requires that the pages are taken.
  void begin_chunk(std::uint64_t first_page, std::uint64_t size_class);
  void end_chunk(std::uint64_t chunk_number);
  void list(std::uint64_t chunk_number);
  void unlist(const Chunk& chunk);

  [[nodiscard]] std::optional<std::uint64_t> take_pages(std::uint64_t count, For purpose);
  [[nodiscard]] bool take_pages_at(std::uint64_t first, std::uint64_t count);
  void give_back_pages(std::uint64_t first, std::uint64_t count);
  void insert_free(std::uint64_t first, std::uint64_t count);
  void erase_free(std::uint64_t first, std::uint64_t count);

  const std::uint64_t begin_;
  const std::uint64_t pages_total_;
  const std::uint64_t pages_reserved_;
  std::uint64_t pages_free_ = 0;
  std::uint64_t bytes_used_ = 0;

  std::map<std::uint64_t, std::uint64_t> free_by_place_;            // pages: first, count
  std::set<std::pair<std::uint64_t, std::uint64_t>> free_by_size_;  // count, first
  std::vector<Chunk> chunks_;
  std::vector<std::uint32_t> unused_chunks_;                  // of chunks_
  std::vector<std::vector<std::uint32_t>> chunks_with_room_;  // by size class
  std::vector<std::uint32_t> chunk_of_page_;                  // number + 1; 0: none
};

}  // namespace farside::kv
