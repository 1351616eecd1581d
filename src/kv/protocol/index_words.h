// index_words.h — how a key is looked for in the index, by its server and by clients that READ it.
//
// Bucket `low mod buckets`, then the following ones, until one holds a word that was never used.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "kv/protocol/layout.h"

namespace farside::kv {

using IndexBucketWords = std::array<std::uint64_t, IndexWord::kWordsInBucket>;

/// Cells that may be the key's.
struct IndexCandidates {
  std::array<IndexWord, IndexWord::kWordsInBucket> words;
  std::size_t count = 0;
};

[[nodiscard]] constexpr std::uint64_t bucket_of(const KeyId& key, std::uint64_t buckets) {
  return key.low & (buckets - 1);
}

[[nodiscard]] constexpr bool ends_search(const IndexBucketWords& bucket) {
  return std::ranges::find(bucket, IndexWord::kNeverUsed) != bucket.end();
}

[[nodiscard]] constexpr IndexCandidates index_candidates(const IndexBucketWords& bucket, const KeyId& key) {
  IndexCandidates found;
  for (const std::uint64_t word : bucket) {
    const IndexWord cell = IndexWord::from_word(word);
    if (cell.offset != 0 && cell.tag == IndexWord::tag_of(key)) found.words.at(found.count++) = cell;
  }
  return found;
}

}  // namespace farside::kv
