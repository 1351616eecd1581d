// index.h — the server's own hand on the index (index_words.h), and its rule: a bucket holds a word that was never used
// only while no key's search passes it. So a search that ends at one has missed nothing.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "farside/fabric/region.h"

#include "base/assert.h"
#include "kv/protocol/index_words.h"

namespace farside::kv {

class Index {
 public:
  /// An index of `buckets` zeroed buckets, a power of two, that begin at `offset` of the region.
  Index(const Region& region, std::uint64_t offset, std::uint64_t buckets)
      : region_(region), offset_(offset), passes_(buckets) {
    assert_that(std::has_single_bit(buckets), "the number of buckets is a power of two");
  }

  [[nodiscard]] std::uint64_t buckets() const noexcept { return passes_.size(); }
  [[nodiscard]] std::uint64_t keys() const noexcept { return keys_; }
  [[nodiscard]] bool has_room(std::uint64_t keys) const {
    return keys <= buckets() * IndexWord::kWordsInBucket - keys_;
  }
  [[nodiscard]] IndexBucketWords bucket(std::uint64_t number) const;
  /// The bucket where the search goes on, and whether that of any key goes on there.
  [[nodiscard]] std::uint64_t after(std::uint64_t bucket) const { return (bucket + 1) & (buckets() - 1); }
  [[nodiscard]] bool is_passed(std::uint64_t bucket) const { return passes_[bucket] != 0; }
  [[nodiscard]] static bool is_cell(std::uint64_t word) { return IndexWord::from_word(word).offset != 0; }

  /// The word of the key's cell.
  [[nodiscard]] std::optional<IndexWord> find(const KeyId& key) const;
  /// There is room, and the key is not there. Its cell is visible by now.
  void insert(const KeyId& key, const IndexWord& cell);
  /// The key is there.
  void remove(const KeyId& key, const IndexWord& cell);

 private:
  [[nodiscard]] LocalWord<ControlWord> word(std::uint64_t bucket, std::size_t at) const {
    return region_.word<ControlWord>(offset_ + (bucket * IndexWord::kWordsInBucket + at) * sizeof(std::uint64_t));
  }
  [[nodiscard]] bool is_cell_of(const IndexWord& cell, const KeyId& key) const;

  const Region& region_;
  const std::uint64_t offset_;
  std::uint64_t keys_ = 0;
  std::vector<std::uint32_t> passes_;  // by bucket: how many keys' searches go on to the next
};

}  // namespace farside::kv
