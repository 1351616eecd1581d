// pager_memory.h — far memory for a test: a pager whose pages a space of the same process keeps.
#pragma once

#include <chrono>
#include <memory>
#include <span>

#include "far/pager/pager.h"
#include "far/pager/space_page_io.h"
#include "tests/far/local_space.h"

namespace farside::test {

inline constexpr std::uint64_t kPagerBudget = std::uint64_t{2} << 20U;
inline constexpr std::uint64_t kPagerSpace = 8 * kPagerBudget;

struct PagerMemory {
  explicit PagerMemory(far::FaultService service, std::uint64_t bytes = kPagerSpace,
                       std::uint64_t budget = kPagerBudget,
                       std::chrono::milliseconds fault_timeout = std::chrono::minutes(2)) {
    auto owned = std::make_unique<LocalSpace>(bytes);
    space = owned.get();
    pager = std::make_unique<far::Pager>(
        std::make_unique<far::SpacePageIoSource>(std::move(owned)),
        far::PagerOptions{.budget_bytes = budget, .service = service, .fault_timeout = fault_timeout});
    words = {reinterpret_cast<std::uint64_t*>(pager->base()), bytes / 8};
  }

  LocalSpace* space;
  std::unique_ptr<far::Pager> pager;
  std::span<std::uint64_t> words;
};

}  // namespace farside::test
