// page_mover_fixture.h — an arena whose pages a PageMover brings and carries away, at the test's word: no evictor runs.
#pragma once

#include <array>
#include <chrono>

#include <gtest/gtest.h>

#include "far/pager/arena.h"
#include "far/pager/bus_errors.h"
#include "far/pager/page_mover.h"
#include "tests/far/cellar.h"

namespace farside::test {

inline constexpr far::PageNumber kPagesOfArena = 1024;
inline constexpr std::uint64_t kBudget = 256;

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
    ASSERT_EQ(mover.serve(arena.page_of(address), is_write, faults), far::Result::done);
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

  Cellar cellar{kPagesOfArena};
  far::Arena arena{kPagesOfArena};
  far::Userfault userfault{far::FaultService::in_thread};
  far::Frames frames{kBudget};
  Tally tally;
  far::PageMover mover;
  CellarShuttle faults{cellar};
  CellarShuttle evictor{cellar};
  far::BusErrorRegistration registration{*this};
};

}  // namespace farside::test
