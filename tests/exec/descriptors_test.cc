// The table of descriptors under threads that all do at once what no sane program does.
#include "cache_preload/descriptors.h"

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace farside::cache_preload {
namespace {

constexpr int kFd = 7;
constexpr std::uint64_t kRounds = 8'000'000;

CachedFile file_number(std::uint64_t number) {
  const auto signed_number = static_cast<std::int64_t>(number);
  return {{number, number, number, signed_number, signed_number}, number};
}

TEST(Descriptor, TellsWhatWasRecorded) {
  Descriptor& place = *descriptor(kFd);
  CachedFile file{};
  place.record(place.examine(), Kind::cached, file_number(5));
  EXPECT_EQ(place.look(file).kind(), Kind::cached);
  EXPECT_EQ(file.hash, 5U);
  { const Changing changing(kFd); }
  EXPECT_EQ(place.look(file).kind(), Kind::unknown);
}

// The number came to mean something else while a thread found out what it had meant.
TEST(Descriptor, IsNotToldWhatItWasBefore) {
  Descriptor& place = *descriptor(kFd);
  const auto before = place.examine();
  { const Changing changing(kFd); }
  CachedFile file{};
  place.record(before, Kind::cached, file_number(5));
  EXPECT_EQ(place.look(file).kind(), Kind::unknown);

  const Changing changing(kFd);
  place.record(place.examine(), Kind::cached, file_number(5));
  EXPECT_EQ(place.look(file).kind(), Kind::changing);
}

TEST(Descriptor, NeverMixesTwoFiles) {
  Descriptor& place = *descriptor(kFd);
  std::atomic<int> writing = 2;
  std::vector<std::jthread> writers;
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    writers.emplace_back([&, seed] {
      for (std::uint64_t i = seed; i < kRounds; i += 2) {
        if (i % 16 < 2) const Changing changing(kFd);
        place.record(place.examine(), Kind::cached, file_number(i));
      }
      --writing;
    });
  }
  while (writing > 0) {
    CachedFile file{};
    if (place.look(file).kind() != Kind::cached) continue;
    ASSERT_EQ(file.identity, file_number(file.hash).identity);
  }
}

TEST(Descriptor, IsNotReadByANumberThatChanged) {
  Descriptor& place = *descriptor(kFd);
  place.examine();
  const std::uint64_t changes = place.changes();
  ASSERT_TRUE(place.enter(changes));
  place.leave();
  { const Changing changing(kFd); }
  EXPECT_FALSE(place.enter(changes));
  EXPECT_FALSE(place.has_reads());
}

// A read that never ends holds a change up, but not for ever.
TEST(Descriptor, IsChangedAllTheSame) {
  Descriptor& place = *descriptor(kFd);
  place.examine();
  ASSERT_TRUE(place.enter(place.changes()));
  { const Changing changing(kFd); }
  place.leave();
}

TEST(Descriptors, AreForgottenByRange) {
  CachedFile file{};
  for (int fd = 20; fd < 30; ++fd) descriptor(fd)->record(descriptor(fd)->examine(), Kind::passing, file);
  { const Changing changing(22, ~0U); }
  for (int fd = 20; fd < 30; ++fd) {
    EXPECT_EQ(descriptor(fd)->look(file).kind(), fd < 22 ? Kind::passing : Kind::unknown) << fd;
  }
  EXPECT_EQ(descriptor(-1), nullptr);
  EXPECT_EQ(descriptor(static_cast<int>(kDescriptors)), nullptr);
}

}  // namespace
}  // namespace farside::cache_preload
