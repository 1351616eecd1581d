// From a key's id to its cell: full buckets, keys with one tag, and words that were used.
#include "kv/server/index.h"

#include <map>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "farside/fabric/fabric.h"

#include "tests/support/reduced.h"

namespace farside::kv::test {
namespace {

using farside::test::reduced;

class KvIndex : public testing::Test {
 protected:
  static constexpr std::uint64_t kBuckets = 8;
  static constexpr std::uint64_t kWords = kBuckets * IndexWord::kWordsInBucket;
  static constexpr std::uint64_t kCells = kBuckets * sizeof(IndexBucketWords);
  static constexpr std::uint64_t kCellBytes = 3 * IndexWord::kGrain;

  /// Of that bucket; all have the tag `tag`.
  [[nodiscard]] static KeyId key(std::uint64_t bucket, std::uint64_t number, std::uint64_t tag = 5) {
    return {number, tag << (64 - IndexWord::kTagBits) | number << 8U | bucket};
  }
  IndexWord insert(const KeyId& key) {
    const IndexWord cell{IndexWord::tag_of(key), kCellBytes, next_cell_};
    next_cell_ += kCellBytes;
    region_->word<ControlWord>(cell.offset).store(key.high);
    region_->word<ControlWord>(cell.offset + 8).store(key.low);
    index_.insert(key, cell);
    return cell;
  }
  /// As a client that READs bucket by bucket finds it.
  [[nodiscard]] std::optional<std::uint64_t> search(const KeyId& key, std::uint64_t* buckets_read = nullptr) {
    for (std::uint64_t bucket = bucket_of(key, kBuckets), read = 1; read <= kBuckets; ++read) {
      const IndexBucketWords words = index_.bucket(bucket);
      const IndexCandidates found = index_candidates(words, key);
      for (std::size_t i = 0; i < found.count; ++i) {
        const std::uint64_t cell = found.words.at(i).offset;
        if (region_->word<ControlWord>(cell).load() == key.high) return cell;
      }
      if (buckets_read != nullptr) *buckets_read = read;
      if (ends_search(words)) break;
      bucket = (bucket + 1) % kBuckets;
    }
    return std::nullopt;
  }

  std::unique_ptr<Fabric> fabric_ = make_host_fabric({.mode = FabricMode::direct});
  std::unique_ptr<Region> region_ = fabric_->create_region("index", 1U << 20U);
  Index index_{*region_, 0, kBuckets};
  std::uint64_t next_cell_ = kCells;
};

TEST_F(KvIndex, KeysWithOneTagAreToldApartByTheirCells) {
  const IndexWord first = insert(key(2, 1));
  const IndexWord second = insert(key(2, 2));
  EXPECT_EQ(index_.find(key(2, 1))->offset, first.offset);
  EXPECT_EQ(index_.find(key(2, 2))->offset, second.offset);
  EXPECT_FALSE(index_.find(key(2, 3)));
}

// Past the last bucket comes the first.
TEST_F(KvIndex, WhatHasNoRoomInItsBucketIsInALaterOne) {
  for (std::uint64_t i = 0; i < 20; ++i) insert(key(kBuckets - 1, i));
  for (std::uint64_t i = 0; i < 20; ++i) EXPECT_TRUE(search(key(kBuckets - 1, i))) << i;
}

TEST_F(KvIndex, TakesAsManyKeysAsItHasWords) {
  EXPECT_TRUE(index_.has_room(kWords));
  for (std::uint64_t i = 0; i < kWords; ++i) insert(key(3, i));
  EXPECT_FALSE(index_.has_room(1));
  for (std::uint64_t i = 0; i < kWords; ++i) EXPECT_TRUE(index_.find(key(3, i)));
  EXPECT_FALSE(index_.find(key(3, kWords)));
}

// The word of a key that went does not hide those whose search passed it.
TEST_F(KvIndex, AWordThatWasUsedHidesNothing) {
  std::vector<IndexWord> cells;
  for (std::uint64_t i = 0; i < 9; ++i) cells.push_back(insert(key(1, i)));
  index_.remove(key(1, 0), cells[0]);
  EXPECT_TRUE(search(key(1, 8))) << "it is in the next bucket";
  const IndexWord cell = insert(key(1, 9));
  EXPECT_EQ(search(key(1, 9)), cell.offset) << "it has the word now";
}

// Keys come and go for ever; a search for what is not there stays short.
TEST_F(KvIndex, UsedWordsBecomeUnusedWhenNoSearchPasses) {
  for (std::uint64_t round = 0; round < 3; ++round) {
    std::map<std::uint64_t, IndexWord> cells;
    for (std::uint64_t i = 0; i < 30; ++i) cells.emplace(i, insert(key(4, i)));
    for (const auto& [number, cell] : cells) index_.remove(key(4, number), cell);
  }
  std::uint64_t buckets_read = 0;
  EXPECT_FALSE(search(key(4, 0), &buckets_read));
  EXPECT_EQ(buckets_read, 1);
}

TEST_F(KvIndex, ServerAndReadersFindWhatIsThereAndNothingElse) {
  std::mt19937_64 random(1);
  std::map<std::uint64_t, IndexWord> there;
  for (std::uint64_t step = 0; step < reduced(20'000); ++step) {
    const std::uint64_t number = random() % 80;
    const KeyId id = key(number % 3, number, number % 2);
    const auto found = there.find(number);
    ASSERT_EQ(index_.find(id).has_value(), found != there.end());
    ASSERT_EQ(search(id).has_value(), found != there.end());
    if (found != there.end()) {
      index_.remove(id, found->second);
      there.erase(found);
    } else if (index_.has_room(1)) {
      next_cell_ = kCells + number * kCellBytes;
      there.emplace(number, insert(id));
    }
    ASSERT_EQ(index_.keys(), there.size());
  }
}

}  // namespace
}  // namespace farside::kv::test
