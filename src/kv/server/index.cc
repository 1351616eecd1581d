#include "kv/server/index.h"

#include <algorithm>

#include "base/assert.h"

namespace farside::kv {

IndexBucketWords Index::bucket(std::uint64_t number) const {
  IndexBucketWords words;
  for (std::size_t at = 0; at < words.size(); ++at) words.at(at) = word(number, at).load();
  return words;
}

bool Index::is_cell_of(const IndexWord& cell, const KeyId& key) const {
  return region_.word<ControlWord>(cell.offset + offsetof(KeyId, low)).load() == key.low &&
         region_.word<ControlWord>(cell.offset + offsetof(KeyId, high)).load() == key.high;
}

std::optional<IndexWord> Index::find(const KeyId& key) const {
  std::uint64_t number = bucket_of(key, buckets());
  for (std::uint64_t searched = 0; searched < buckets(); ++searched, number = after(number)) {
    const IndexBucketWords words = bucket(number);
    const IndexCandidates found = index_candidates(words, key);
    for (std::size_t i = 0; i < found.count; ++i) {
      if (is_cell_of(found.words.at(i), key)) return found.words.at(i);
    }
    if (passes_[number] == 0) break;
  }
  return std::nullopt;
}

void Index::insert(const KeyId& key, const IndexWord& cell) {
  assert_that(has_room(1), "a key is inserted where there is room");
  assert_that(is_cell(cell.word()) && cell.tag == IndexWord::tag_of(key), "a cell's word bears the tag of its key");
  ++keys_;
  for (std::uint64_t number = bucket_of(key, buckets());; number = after(number)) {
    const IndexBucketWords words = bucket(number);
    const auto* free = std::ranges::find_if_not(words, &Index::is_cell);
    if (free != words.end()) {
      word(number, static_cast<std::size_t>(free - words.begin())).store(cell.word());
      return;
    }
    ++passes_[number];
  }
}

void Index::remove(const KeyId& key, const IndexWord& cell) {
  --keys_;
  for (std::uint64_t number = bucket_of(key, buckets());; number = after(number)) {
    const IndexBucketWords words = bucket(number);
    const auto* found = std::ranges::find(words, cell.word());
    if (found != words.end()) {
      const bool is_passed = passes_[number] != 0;
      word(number, static_cast<std::size_t>(found - words.begin()))
          .store(is_passed ? IndexWord::kUsedOnce : IndexWord::kNeverUsed);
      return;
    }
    assert_that(passes_[number] != 0, "a key that is removed is there: its search passes the buckets before its own");
    if (--passes_[number] != 0) continue;
    for (std::size_t at = 0; at < words.size(); ++at) {
      if (words.at(at) == IndexWord::kUsedOnce) word(number, at).store(IndexWord::kNeverUsed);
    }
  }
}

}  // namespace farside::kv
