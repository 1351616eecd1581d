// A peer writes into the memory of a cache (src/cache): anything, anywhere, and rows, entries and labels whose ids are
// right and whose contents are not. A node that wants a block gets it, with the right label unless a peer has written
// over that, or learns in time that it does not.
//
// Input: each thing that happens: its kind (1 byte), 0 mod 4: bytes are written (team_of_two.h); 1: a row: its block
// (1), its place in the bucket (1), whether it is being claimed (1), its cells (8 each); 2: a label in a slot of rank
// 1: its block (1), the slot (1), the token (1), the error of the length that it claims (1); 3: an entry of the
// alternative directory: its block (1), the place (5). After each rank 0 wants the block that the kind divided by 4
// numbers.
#include "farside/cache/cache.h"

#include <cstdlib>
#include <cstring>

#include "cache/geometry.h"
#include "tests/fuzz/team_of_two.h"

namespace farside::fuzz {
namespace {

constexpr std::uint64_t kBlock = 4096;
constexpr std::uint64_t kSlots = 4;
constexpr std::uint64_t kFiles = 8;
constexpr cache::CacheOptions kOptions{.cache_bytes = kSlots * kBlock,
                                       .block_bytes = kBlock,
                                       .groups = 2,
                                       .loading_lease = std::chrono::microseconds(100)};

cache::BlockKey key_of(std::uint64_t number) {
  return {{.file_system = 1, .inode = number % kFiles, .bytes = kBlock - 96, .modified_ns = 5, .changed_ns = 6}, 0};
}

class Zeros final : public cache::BlockSource {
 public:
  std::uint64_t load(const cache::BlockKey& key, LocalSpan into) override {
    into.piece(0, key.file.bytes).clear();
    return key.file.bytes;
  }
};

/// Integers of so many bytes, the first one highest.
std::uint64_t number(Input& input, unsigned bytes) {
  std::uint64_t number = 0;
  for (unsigned i = 0; i < bytes; ++i) number = number << 8U | input.byte();
  return number;
}

class Caches {
 public:
  Caches() {
    for (team::Rank rank = 0; rank < TeamOfTwo::kSize; ++rank) {
      caches_.at(rank) = std::make_unique<cache::Cache>(team_[rank], kOptions);
    }
  }

  void write_next(Input& input, std::uint64_t kind) {
    switch (kind % 4) {
      case 0: return note(team_.write(input));
      case 1: return write_row(input);
      case 2: return write_label(input);
      default: return write_entry(input);
    }
  }

  void want(std::uint64_t number) {
    const cache::BlockKey key = key_of(number);
    Zeros source;
    cache::LoaderWatch watch;
    const Deadline soon = team_[0].fabric().in(std::chrono::milliseconds(2));
    const cache::Acquired acquired = caches_[0]->acquire(*channel_, key, source, soon, &watch);
    if (acquired.answer != cache::Acquired::Answer::here) return;
    if (acquired.slot >= kSlots || acquired.token == 0) std::abort();
    if (is_overwritten_.at(acquired.slot)) return;
    cache::BlockLabel label{};
    const std::uint64_t at = geometry_.slot_offset(acquired.slot) + offsetof(cache::SlotHeader, key);
    team_[0].memory().copy_out(at, std::as_writable_bytes(std::span(&label, 1)));
    if (label.key != key || label.bytes != key.file.bytes) std::abort();
  }

 private:
  // A peer may change what is in a slot of rank 0, as it may change the block's bytes.
  void note(const TeamOfTwo::Written& written) {
    for (std::uint32_t slot = 0; written.rank == 0 && slot < kSlots; ++slot) {
      const std::uint64_t begin = geometry_.slot_offset(slot);
      if (written.at < begin + sizeof(cache::SlotHeader) && begin < written.at + written.bytes)
        is_overwritten_.at(slot) = true;
    }
  }
  void store(const cache::Geometry::Home& at, std::uint64_t index, std::uint64_t word) {
    team_[at.rank].memory().word<ControlWord>(at.offset + 8 * index).store(word);
  }
  void write_row(Input& input) {
    const cache::BlockId id = cache::block_id(key_of(input.byte()));
    cache::Geometry::Home row = geometry_.bucket_of(id);
    row.offset += input.byte() % cache::Geometry::kBucketRows * geometry_.row_bytes();
    store(row, 0, id | input.byte() % 2 << 63U);
    for (std::uint32_t group = 0; group < kOptions.groups; ++group) store(row, 1 + group, number(input, 8));
  }
  void write_label(Input& input) {
    const cache::BlockKey key = key_of(input.byte());
    const std::uint64_t at = geometry_.slot_offset(input.byte() % kSlots);
    const Region& memory = team_[1].memory();
    memory.word<ControlWord>(at).store(cache::block_id(key));
    memory.word<ControlWord>(at + offsetof(cache::SlotHeader, token)).store(input.byte());
    const cache::BlockLabel label{key, key.file.bytes + input.byte(), 0};
    memory.copy_in(at + offsetof(cache::SlotHeader, key), std::as_bytes(std::span(&label, 1)));
  }
  void write_entry(Input& input) {
    constexpr unsigned kPlaceBytes = 5;
    const cache::BlockId id = cache::block_id(key_of(input.byte()));
    const std::uint64_t place = number(input, kPlaceBytes);
    const std::uint64_t tag = id << 1U >> 8U * kPlaceBytes << 8U * kPlaceBytes;
    store(geometry_.alternative_of(id, geometry_.group_of(0)), 0, tag | place);
  }

  const cache::Geometry geometry_{kOptions, TeamOfTwo::kSize};
  const TeamOfTwo team_;
  std::array<std::unique_ptr<cache::Cache>, TeamOfTwo::kSize> caches_;
  std::array<bool, kSlots> is_overwritten_{};  ///< the headers of rank 0's slots, by a peer
  std::unique_ptr<Channel> channel_ = team_[0].fabric().open_channel();
};

}  // namespace
}  // namespace farside::fuzz

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  farside::fuzz::Input input(std::as_bytes(std::span(data, size)));
  for (farside::fuzz::Caches caches; !input.is_over();) {
    const std::uint64_t kind = input.byte();
    caches.write_next(input, kind);
    caches.want(kind / 4);
  }
  return 0;
}
