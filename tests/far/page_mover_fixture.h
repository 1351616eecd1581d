// page_mover_fixture.h — an arena whose pages a PageMover brings and carries away, at the test's word: no evictor runs.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "far/pager/arena.h"
#include "far/pager/bus_errors.h"
#include "far/pager/page_mover.h"

namespace farside::test {

inline constexpr far::PageNumber kPagesOfArena = 1024;
inline constexpr std::uint64_t kBudget = 256;

// Keeps pages in this process, and calls the test in the middle of a store: after the bytes were handed over, before
// the pager learns that they are safe.
struct Cellar {
  std::vector<std::byte> bytes = std::vector<std::byte>(kPagesOfArena * far::kPageBytes);
  std::function<void()> during_store = [] {};
  std::function<bool(far::PageNumber)> has_room_for = [](far::PageNumber) { return true; };
  far::Status stores_end_with = far::Status::done;
};

class CellarPageIo final : public far::PageIo {
 public:
  explicit CellarPageIo(Cellar& cellar) : cellar_(cellar) {}

  [[nodiscard]] std::byte* buffer() override { return buffer_.data(); }
  [[nodiscard]] far::Status fetch(std::span<const far::PageNumber> pages) override {
    for (std::size_t i = 0; i < pages.size(); ++i) std::memcpy(place(i), shelf(pages[i]), far::kPageBytes);
    return far::Status::done;
  }
  [[nodiscard]] far::Status store(std::span<const far::PageNumber> pages) override {
    if (!std::ranges::all_of(pages, cellar_.has_room_for)) return far::Status::full;
    for (std::size_t i = 0; i < pages.size(); ++i) std::memcpy(shelf(pages[i]), place(i), far::kPageBytes);
    cellar_.during_store();
    return cellar_.stores_end_with;
  }
  [[nodiscard]] far::Status erase(far::PageNumber first, far::PageNumber count) override {
    std::memset(shelf(first), 0, count * far::kPageBytes);
    return far::Status::done;
  }

 private:
  [[nodiscard]] std::byte* place(std::size_t i) { return buffer_.data() + i * far::kPageBytes; }
  [[nodiscard]] std::byte* shelf(far::PageNumber page) {
    return cellar_.bytes.data() + std::size_t{page} * far::kPageBytes;
  }

  Cellar& cellar_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(kPages * far::kPageBytes);
};

struct Tally final : far::PageObserver {
  void note(far::PageEvent event, far::PageNumber page, std::uint64_t count) override {
    pages.at(static_cast<std::size_t>(event)).at(page) += count;
  }
  [[nodiscard]] std::uint64_t at(far::PageEvent event, far::PageNumber page) const {
    return pages.at(static_cast<std::size_t>(event)).at(page);
  }

  std::array<std::array<std::uint64_t, kPagesOfArena>, far::kPageEvents> pages{};
};

class PageMoverTest : public testing::Test, public far::BusErrorServer {
 protected:
  explicit PageMoverTest(far::PagerRules rules = {}, std::uint32_t most_ahead = 0)
      : mover(arena, userfault, frames, most_ahead, std::chrono::seconds(60), rules, &tally) {
    userfault.watch(arena.base(), arena.bytes());
  }

  [[nodiscard]] bool owns(const void* address) const override { return arena.contains(address); }
  void serve_bus_error(void* address, bool is_write) override {
    ASSERT_EQ(mover.serve(arena.page_of(address), is_write, faults), far::Status::done);
  }

  [[nodiscard]] volatile std::uint64_t& word(far::PageNumber page) {
    return *reinterpret_cast<volatile std::uint64_t*>(arena.at(page));
  }
  // Enough others come that whatever was here leaves, unless it may not.
  void evict_all() {
    for (int i = 0; i < 20; ++i) {
      while (mover.evict(64, evictor).pages != 0) {
      }
    }
  }

  Cellar cellar;
  far::Arena arena{kPagesOfArena};
  far::Userfault userfault{far::FaultService::in_thread};
  far::Frames frames{kBudget};
  Tally tally;
  far::PageMover mover;
  CellarPageIo faults{cellar};
  CellarPageIo evictor{cellar};
  far::BusErrorRegistration registration{*this};
};

}  // namespace farside::test
