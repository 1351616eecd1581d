// A node describes its memory to a program (cache_preload/host_memory.h). The program maps only what makes sense, and
// reads nothing out of range, whatever the memory contains.
//
// Input: the description: the bytes of a block (1 byte, the exponent of 2), the number of slots (1), where they begin
// (1, in units of 64 bytes), where the index begins (1, the same), the number of its buckets (1, the exponent of 2),
// the bytes that both files claim to have (1 each, in units of 512), and whether the description is bytes as they are
// instead (1: odd). Then each content of the memory: its kind (1), even: where (2), how many bytes (1), the bytes; odd:
// a slot with the block: its number (1), how many bytes the block claims to have (2); it is in the index, too. At the
// end all of the block is read.
#include <array>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <sys/mman.h>

#include "farside/base/fd.h"

#include "cache_preload/host_memory.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/node_files.h"

namespace farside::fuzz {
namespace {

namespace node_socket = cache::node_socket;

constexpr std::uint64_t kSlotsBytes = 32U << 10U;
constexpr std::uint64_t kBoardBytes = 8U << 10U;
constexpr std::uint64_t kUnit = 512;

const cache::BlockKey kKey{{.file_system = 1, .inode = 2, .bytes = kSlotsBytes, .modified_ns = 5, .changed_ns = 6}, 0};

node_socket::MapReply described(Input& input) {
  node_socket::MapReply reply{.answer = node_socket::Answer::here,
                              .rank = 0,
                              .block_bytes = std::uint64_t{1} << input.byte() % 64,
                              .slot_count = input.byte(),
                              .slots_file_bytes = 0,
                              .slots_offset = input.byte() * 64,
                              .index_offset = input.byte() * 64,
                              .index_buckets = std::uint64_t{1} << input.byte() % 64,
                              .board_bytes = 0};
  reply.slots_file_bytes = input.byte() * kUnit;
  reply.board_bytes = input.byte() * kUnit;
  if (input.byte() % 2 != 0) {
    const auto bytes = input.bytes(sizeof reply);
    std::memcpy(static_cast<void*>(&reply), bytes.data(), bytes.size());
  }
  return reply;
}

/// The files that a node hands out.
class NodeFiles {
 public:
  explicit NodeFiles(const node_socket::MapReply& reply) : reply_(reply) {}

  [[nodiscard]] const cache_preload::HostMemory* map() const {
    return cache_preload::HostMemory::map(reply_, slots_file_.get(), board_file_.get());
  }

  void write_next(Input& input) {
    if (input.byte() % 2 == 0) {
      const std::uint64_t at = input.byte() << 8U | input.byte();
      return write(at, input.bytes(input.byte()));
    }
    const std::uint64_t slot = input.byte();
    const cache::BlockId id = cache::block_id(kKey);
    const std::array<std::uint64_t, 2> words{id, 1};
    const std::uint64_t at = reply_.slots_offset + slot * cache::slot_stride(reply_.block_bytes);
    const cache::BlockLabel label{kKey, input.byte() << 8U | input.byte(), 0};
    write(at, std::as_bytes(std::span(words)));
    write(at + offsetof(cache::SlotHeader, key), std::as_bytes(std::span(&label, 1)));
    const std::uint64_t word = cache::index_word(id, slot);
    const std::uint64_t bucket = id & (reply_.index_buckets - 1);
    write(reply_.index_offset + bucket * sizeof(cache::IndexBucket), std::as_bytes(std::span(&word, 1)));
  }

 private:
  void write(std::uint64_t at, std::span<const std::byte> bytes) {
    if (at >= kSlotsBytes) return;
    std::memcpy(slots_.base() + at, bytes.data(), std::min<std::uint64_t>(bytes.size(), kSlotsBytes - at));
  }

  const cache::node_socket::MapReply reply_;
  const Fd slots_file_ = make_memfd(kNodeFileName, kSlotsBytes);
  const Fd board_file_ = make_memfd(kNodeFileName, kBoardBytes);
  const Mapping slots_{slots_file_, kSlotsBytes, Mapping::Access::read_write};
};

/// As a program reads: within a block.
void read_all(const cache_preload::HostMemory& memory, std::uint64_t slots) {
  const std::uint64_t block_bytes = std::uint64_t{1} << memory.block_bits();
  if (block_bytes > kSlotsBytes) std::abort();
  std::vector<std::byte> into(block_bytes);
  for (const std::uint64_t from : {std::uint64_t{0}, block_bytes / 2, block_bytes - 1}) {
    const cache_preload::Piece piece{kKey.file, kKey.index, cache::block_id(kKey), from, block_bytes - from, 1};
    (void)memory.copy(piece, into.data());
    for (std::uint64_t slot = 0; slot <= slots; ++slot) (void)memory.copy_from_slot(slot, piece, into.data());
  }
  memory.count(&node_socket::HitStripe::mappings, 1);
}

}  // namespace
}  // namespace farside::fuzz

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace farside;
  fuzz::Input input(std::as_bytes(std::span(data, size)));
  const cache::node_socket::MapReply reply = fuzz::described(input);
  {
    fuzz::NodeFiles files(reply);
    const cache_preload::HostMemory* const memory = files.map();
    if (memory == nullptr) return 0;
    while (!input.is_over()) files.write_next(input);
    fuzz::read_all(*memory, reply.slot_count);
    ::munmap(const_cast<cache_preload::HostMemory*>(memory), sizeof *memory);
  }
  fuzz::unmap_node_files();
  return 0;
}
