// Where the pages of related processes are kept, without the processes.
#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <numeric>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "far/daemon/slot_map.h"

namespace farside::far {
namespace {

constexpr Slot kSlots = 4096;
constexpr PageNumber kPages = 8192;

/// A space in this process, which notes what is stored where, and what is given back.
struct Cellar {
  std::vector<std::byte> bytes = std::vector<std::byte>(std::size_t{kSlots} * kPageBytes);
  std::vector<Slot> stored;
  std::vector<Slot> fetched;
  std::vector<Slot> given_back;
  Status stores_end_with = Status::done;
  Status erases_end_with = Status::done;
  std::function<void()> within_next_erase;
};

class CellarPageIo final : public PageIo {
 public:
  explicit CellarPageIo(Cellar& cellar) : cellar_(cellar) {}

  [[nodiscard]] std::byte* buffer() override { return buffer_.data(); }
  [[nodiscard]] Status fetch(std::span<const PageNumber> pages) override {
    cellar_.fetched.assign(pages.begin(), pages.end());
    for (std::size_t i = 0; i < pages.size(); ++i) std::memcpy(place(i), shelf(pages[i]), kPageBytes);
    return Status::done;
  }
  [[nodiscard]] Status store(std::span<const PageNumber> pages) override {
    cellar_.stored.assign(pages.begin(), pages.end());
    for (std::size_t i = 0; i < pages.size(); ++i) std::memcpy(shelf(pages[i]), place(i), kPageBytes);
    return cellar_.stores_end_with;
  }
  [[nodiscard]] Status erase(PageNumber first, PageNumber count) override {
    if (const auto act = std::exchange(cellar_.within_next_erase, nullptr)) act();
    if (cellar_.erases_end_with != Status::done) return cellar_.erases_end_with;
    for (Slot slot = first; slot < first + count; slot += 1024) cellar_.given_back.push_back(slot);
    return Status::done;
  }

 private:
  [[nodiscard]] std::byte* place(std::size_t i) { return buffer_.data() + i * kPageBytes; }
  [[nodiscard]] std::byte* shelf(Slot slot) { return cellar_.bytes.data() + std::size_t{slot} * kPageBytes; }

  Cellar& cellar_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(PageIo::kPages * kPageBytes);
};

/// One process's share of it: a byte for each page.
class Owner {
 public:
  Owner(Cellar& cellar, Slots& slots)
      : map_(slots, kPages, {}), page_io_(map_, std::make_unique<CellarPageIo>(cellar)) {}

  Status store(const std::vector<PageNumber>& pages, int byte) {
    std::memset(page_io_.buffer(), byte, pages.size() * kPageBytes);
    return page_io_.store(pages);
  }
  std::vector<int> fetch_all(const std::vector<PageNumber>& pages) {
    std::memset(page_io_.buffer(), 0xff, pages.size() * kPageBytes);
    EXPECT_EQ(page_io_.fetch(pages), Status::done);
    std::vector<int> bytes;
    for (std::size_t i = 0; i < pages.size(); ++i) bytes.push_back(static_cast<int>(page_io_.buffer()[i * kPageBytes]));
    return bytes;
  }
  int fetch(PageNumber page) { return fetch_all({page}).front(); }
  void erase(PageNumber first, PageNumber count) { EXPECT_EQ(page_io_.erase(first, count), Status::done); }
  [[nodiscard]] SlotMap& map() { return map_; }

 private:
  SlotMap map_;
  SlotPageIo page_io_;
};

class SlotsTest : public testing::Test {
 protected:
  static std::vector<PageNumber> pages_from(PageNumber first) {
    std::vector<PageNumber> pages(PageIo::kPages);
    std::iota(pages.begin(), pages.end(), first);
    return pages;
  }

  Cellar cellar;
  Slots slots{std::make_unique<CellarPageIo>(cellar), kSlots};
};

// What is stored together lies together, wherever it is in the program, and stays there when it is stored again.
TEST_F(SlotsTest, NeighboursInTimeAreNeighboursInTheSpace) {
  Owner owner(cellar, slots);
  EXPECT_EQ(owner.store({7000, 3, 500}, 1), Status::done);
  EXPECT_THAT(cellar.stored, testing::ElementsAre(0, 1, 2));
  EXPECT_EQ(owner.store({3, 4}, 2), Status::done);
  EXPECT_THAT(cellar.stored, testing::ElementsAre(1, 3));
  EXPECT_EQ(owner.fetch(7000), 1);
  EXPECT_EQ(owner.fetch(3), 2);
  EXPECT_EQ(owner.fetch(5), 0);  // never stored
}

// Each relative keeps what both had, whichever of them stores first; and a slot is free when no relative has it.
TEST_F(SlotsTest, RelativesDoNotSeeEachOthersStores) {
  Owner parent(cellar, slots);
  EXPECT_EQ(parent.store({1, 2}, 1), Status::done);
  {
    Owner child(cellar, slots);
    const std::vector<PageNumber> both{1, 2};
    parent.map().share_with(child.map(), both);
    EXPECT_EQ(slots.used(), 2U);
    EXPECT_EQ(parent.store({1}, 2), Status::done);
    EXPECT_EQ(child.store({2}, 3), Status::done);
    EXPECT_EQ(slots.used(), 4U);
    EXPECT_EQ(child.fetch(1), 1);
    EXPECT_EQ(child.fetch(2), 3);
    EXPECT_EQ(parent.fetch(1), 2);
    EXPECT_EQ(parent.fetch(2), 1);
    EXPECT_EQ(child.store({1}, 4), Status::done);  // alone with it by now
    EXPECT_EQ(slots.used(), 4U);
  }
  EXPECT_EQ(slots.used(), 2U);
  EXPECT_EQ(parent.fetch(2), 1);
}

// It is tried again when something else becomes empty, and when there is no room.
TEST_F(SlotsTest, WhatCouldNotBeErasedIsErasedLater) {
  Owner owner(cellar, slots);
  for (PageNumber first = 0; first < kSlots; first += PageIo::kPages) {
    EXPECT_EQ(owner.store(pages_from(first), 1), Status::done);
  }
  cellar.erases_end_with = Status::timed_out;
  owner.erase(0, 2048);
  EXPECT_EQ(owner.store({5000}, 1), Status::full);
  cellar.erases_end_with = Status::done;
  EXPECT_EQ(owner.store({5000}, 1), Status::full);
  EXPECT_THAT(cellar.given_back, testing::UnorderedElementsAre(0, 1024));
  for (PageNumber first = 0; first < 2048; first += PageIo::kPages) {
    EXPECT_EQ(owner.store(pages_from(first), 2), Status::done);
  }
  EXPECT_EQ(owner.fetch(0), 2);
  EXPECT_EQ(slots.used(), kSlots);
}

// A store that timed out keeps nothing: the space sees to it that it is over before the next one to the same place.
TEST_F(SlotsTest, AStoreThatTimedOutHoldsNoSlot) {
  Owner owner(cellar, slots);
  cellar.stores_end_with = Status::timed_out;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(owner.store({1}, 1), Status::timed_out);
  cellar.stores_end_with = Status::done;
  EXPECT_EQ(owner.store({1}, 2), Status::done);
  EXPECT_EQ(slots.used(), 1U);
  owner.erase(1, 1);
  EXPECT_EQ(slots.used(), 0U);
}

// A page that was discarded since it left is zeros, and no bytes are fetched for it.
TEST_F(SlotsTest, WhatHasNoSlotIsNotAskedFor) {
  Owner owner(cellar, slots);
  for (const PageNumber page : {1U, 2U, 3U, 4U}) EXPECT_EQ(owner.store({page}, static_cast<int>(page)), Status::done);
  owner.erase(1, 1);
  owner.erase(3, 1);
  EXPECT_THAT(owner.fetch_all({1, 2, 3, 4}), testing::ElementsAre(0, 2, 0, 4));
  EXPECT_THAT(cellar.fetched, testing::ElementsAre(1, 3));
  EXPECT_THAT(owner.fetch_all({1, 3}), testing::ElementsAre(0, 0));
  EXPECT_THAT(cellar.fetched, testing::ElementsAre(1, 3));
}

// A group goes back to the pool when nothing of it is left, and is used again.
TEST_F(SlotsTest, WhatIsEmptyIsGivenBack) {
  Owner owner(cellar, slots);
  for (PageNumber page = 0; page < 2048; page += PageIo::kPages)
    ASSERT_EQ(owner.store(pages_from(page), 1), Status::done);
  owner.erase(0, 1000);
  EXPECT_THAT(cellar.given_back, testing::IsEmpty());
  owner.erase(1000, 24);
  EXPECT_THAT(cellar.given_back, testing::ElementsAre(0));
  owner.erase(0, kPages);
  EXPECT_THAT(cellar.given_back, testing::ElementsAre(0, 1024));
  EXPECT_EQ(slots.used(), 0U);
  for (PageNumber page = 0; page < kSlots; page += PageIo::kPages)
    ASSERT_EQ(owner.store(pages_from(page), 1), Status::done);
}

// The keeper may wait for a node that does not answer. Threads that empty other groups do not wait for it as well.
TEST_F(SlotsTest, WhatIsEmptiedWhileAnotherGroupIsGivenBackIsLeftToThatThread) {
  Owner owner(cellar, slots);
  for (PageNumber page = 0; page < 2048; page += PageIo::kPages)
    ASSERT_EQ(owner.store(pages_from(page), 1), Status::done);
  std::future<void> other;
  cellar.within_next_erase = [&] {
    other = std::async(std::launch::async, [&] { owner.erase(1024, 1024); });
    EXPECT_EQ(other.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  };
  owner.erase(0, 1024);
  other.get();
  EXPECT_THAT(cellar.given_back, testing::ElementsAre(0, 1024));
  EXPECT_EQ(slots.used(), 0U);
}

// Every slot can be used; then it is full, and nothing of a list that finds no room is half stored.
TEST_F(SlotsTest, AFullSpaceSaysSo) {
  Owner owner(cellar, slots);
  for (PageNumber page = 0; page < kSlots; page += PageIo::kPages)
    ASSERT_EQ(owner.store(pages_from(page), 1), Status::done);
  EXPECT_EQ(owner.store({5000}, 2), Status::full);
  EXPECT_EQ(owner.store({3, 5000}, 2), Status::full);
  EXPECT_EQ(slots.used(), kSlots);
  EXPECT_EQ(owner.store({3}, 2), Status::done);  // has one of its own
  owner.erase(17, 1);
  EXPECT_EQ(owner.store({5000}, 3), Status::done);
  EXPECT_EQ(owner.fetch(5000), 3);
  EXPECT_EQ(owner.fetch(3), 2);
}

}  // namespace
}  // namespace farside::far
