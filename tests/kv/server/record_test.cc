// A version's bytes prove themselves: whatever is not what its server wrote is refused, whatever it says of its
// lengths.
#include "kv/protocol/record.h"

#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace farside::kv::test {
namespace {

struct Parts {
  std::vector<std::byte> siblings = std::vector<std::byte>(2 * sizeof(KeyId), std::byte{3});
  std::string_view key = "key";
  std::string_view value = "a value";
};

std::vector<std::byte> record_of(const Parts& parts, const auto& change) {
  RecordHead head{};
  head.generation = 9;
  head.timestamp = {100, 1};
  head.key = key_id(parts.key);
  head.siblings_kind = SiblingsKind::list;
  head.siblings_bytes = static_cast<std::uint32_t>(parts.siblings.size());
  head.key_bytes = static_cast<std::uint32_t>(parts.key.size());
  head.value_bytes = static_cast<std::uint32_t>(parts.value.size());
  change(head);
  std::vector<std::byte> record;
  make_record(head, parts.siblings, parts.key, parts.value, record);
  return record;
}
std::vector<std::byte> record_of(const Parts& parts = {}) {
  return record_of(parts, [](RecordHead&) {});
}

TEST(KvRecord, SaysWhatItWasMadeOf) {
  const auto bytes = record_of();
  EXPECT_EQ(bytes.size() % RecordPlace::kGrain, 0);
  const auto record = read_record(bytes, 9, "key");
  ASSERT_TRUE(record);
  EXPECT_EQ(record->key, "key");
  EXPECT_EQ(record->value, "a value");
  EXPECT_EQ(record->siblings.size(), 2 * sizeof(KeyId));
  EXPECT_EQ(record->head.timestamp, (Timestamp{100, 1}));
  EXPECT_FALSE(record->erased());
}

// A copy in a cell is followed by whatever the cell has more.
TEST(KvRecord, MayBeFollowedByOtherBytes) {
  auto bytes = record_of();
  bytes.resize(bytes.size() + 100, std::byte{7});
  EXPECT_TRUE(read_record(bytes, 9, "key"));
}

TEST(KvRecord, OfAnotherGenerationOrKeyIsRefused) {
  const auto bytes = record_of();
  EXPECT_FALSE(read_record(bytes, 8, "key"));
  EXPECT_FALSE(read_record(bytes, 9, "kez"));
  EXPECT_TRUE(read_record(bytes, 0, ""));
}

// Any bit but those of the mark. What the mark says above them is the generation: otherwise a READ that lasts until a
// place is used again might take one record's bytes with the mark of another.
TEST(KvRecord, AnyOtherBitIsNoticed) {
  const auto right = record_of();
  for (std::size_t bit = RecordHead::kMarkBits; bit < right.size() * 8; ++bit) {
    auto bytes = right;
    bytes[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    EXPECT_FALSE(read_record(bytes, 0, "")) << bit;
  }
  auto bytes = right;
  bytes[0] |= std::byte{RecordHead::kNotNewest};
  EXPECT_TRUE(read_record(bytes, 9, "key"));
}

TEST(KvRecord, CutShortIsRefused) {
  const auto right = record_of();
  for (std::size_t bytes = 0; bytes < right.size(); ++bytes) {
    const std::vector<std::byte> cut(right.begin(), right.begin() + static_cast<std::ptrdiff_t>(bytes));
    EXPECT_FALSE(read_record(cut, 0, "")) << bytes;
  }
}

// With a checksum that is right: what a server would have to be broken, or hostile, to write.
TEST(KvRecord, WhatMakesNoSenseIsRefusedWhateverItsChecksum) {
  const auto refused = [](const auto& change) { return !read_record(record_of({}, change), 0, ""); };
  EXPECT_FALSE(refused([](RecordHead&) {}));
  EXPECT_TRUE(refused([](RecordHead& head) { head.generation = 0; }));
  EXPECT_TRUE(refused([](RecordHead& head) { head.flags = 2; }));
  EXPECT_TRUE(refused([](RecordHead& head) { head.flags = RecordHead::kErased; })) << "it has a value";
  EXPECT_TRUE(refused([](RecordHead& head) { head.siblings_kind = SiblingsKind::none; })) << "it has siblings";
  EXPECT_TRUE(refused([](RecordHead& head) { head.siblings_kind = static_cast<SiblingsKind>(9); }));
  EXPECT_TRUE(refused([](RecordHead& head) { head.siblings_bytes -= 1; })) << "not whole ids";
  EXPECT_TRUE(refused([](RecordHead& head) { head.key_bytes = 0; }));
  EXPECT_TRUE(refused([](RecordHead& head) { head.key_bytes = ~0U; }));
  EXPECT_TRUE(refused([](RecordHead& head) { head.value_bytes = ~0U; }));
  EXPECT_TRUE(refused([](RecordHead& head) { head.siblings_bytes = ~0U; }));
  EXPECT_TRUE(refused([](RecordHead& head) { head.value_bytes -= 1; })) << "what follows is not 0";
  EXPECT_TRUE(refused([](RecordHead& head) { head.key.low ^= 1; }));
}

TEST(KvRecord, OfAnyBytesNothingIsBelieved) {
  std::mt19937_64 random(1);
  std::vector<std::byte> bytes(256);
  for (int i = 0; i < 20'000; ++i) {
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() % 4 == 0 ? random() : 0);
    EXPECT_FALSE(read_record(std::span(bytes).first(random() % bytes.size()), 0, ""));
  }
}

TEST(KvSeal, ACellMixedOfTwoStatesDoesNotMatch) {
  CellHead before{key_id("key"), 5, 0, {}};
  before.slots[0] = {{10, 1}, 6, RecordPlace{VersionState::committed, 96, 4096}.word()};
  before.slots[1] = {{20, 2}, 7, RecordPlace{VersionState::prepared, 96, 8192}.word()};
  before.seal = before.seal_of();
  CellHead after = before;
  after.slots[0] = {};
  after.slots[1].place = RecordPlace{VersionState::committed, 96, 8192}.word();
  after.seal = after.seal_of();
  constexpr std::size_t kWords = sizeof(CellHead) / sizeof(std::uint64_t);
  const auto first = std::bit_cast<std::array<std::uint64_t, kWords>>(before);
  const auto second = std::bit_cast<std::array<std::uint64_t, kWords>>(after);
  std::vector<std::size_t> changed;
  for (std::size_t i = 0; i < kWords; ++i) {
    if (first.at(i) != second.at(i)) changed.push_back(i);
  }
  ASSERT_EQ(changed.size(), 6) << "four words of the first slot, one of the second, the seal";
  for (unsigned choice = 1; choice + 1 < 1U << changed.size(); ++choice) {
    auto words = first;
    for (std::size_t i = 0; i < changed.size(); ++i) {
      if ((choice >> i & 1U) != 0) words.at(changed[i]) = second.at(changed[i]);
    }
    const auto mixed = std::bit_cast<CellHead>(words);
    EXPECT_NE(mixed.seal, mixed.seal_of()) << choice;
  }
}

// Memory that no server has written is no cell.
TEST(KvSeal, ZeroesDoNotMatch) { EXPECT_NE(CellHead{}.seal_of(), 0); }

}  // namespace
}  // namespace farside::kv::test
