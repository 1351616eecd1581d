// traffic.h — counts what a thread does with each page. Most of the time that costs an addition.
#pragma once

#include <algorithm>
#include <bit>
#include <unordered_map>
#include <vector>

#include "farside/gas/pages.h"

#include "base/assert.h"

namespace farside::gas {

class TrafficCounter {
 public:
  explicit TrafficCounter(std::uint64_t at_hand) : at_hand_(at_hand) {
    assert_that(std::has_single_bit(at_hand), "the number of counters at hand is a power of two");
  }

  void count(PageId page, std::uint64_t bytes, bool is_remote) {
    Counts& counts = at_hand_[page & (at_hand_.size() - 1)];
    if (counts.page != page) [[unlikely]] {
      put_away(counts);
      counts = {.page = page};
    }
    Amount& amount = is_remote ? counts.remote : counts.local;
    ++amount.operations;
    amount.bytes += bytes;
  }
  [[nodiscard]] std::vector<PageTraffic> all() const {
    TrafficCounter merged = *this;
    for (const Counts& counts : at_hand_) merged.put_away(counts);
    std::vector<PageTraffic> all;
    for (const auto& [page, traffic] : merged.away_) all.push_back(traffic);
    std::ranges::sort(all, {}, &PageTraffic::page);
    return all;
  }
  void clear() {
    std::ranges::fill(at_hand_, Counts{});
    away_.clear();
  }

 private:
  static constexpr PageId kNone = ~PageId{0};

  struct Amount {
    std::uint64_t operations = 0;
    std::uint64_t bytes = 0;
  };
  struct Counts {
    PageId page = kNone;
    Amount local{};
    Amount remote{};
  };

  void put_away(const Counts& counts) {
    if (counts.page == kNone) return;
    PageTraffic& sum = away_.try_emplace(counts.page, PageTraffic{counts.page, 0, 0, 0, 0}).first->second;
    sum.operations += counts.local.operations + counts.remote.operations;
    sum.bytes += counts.local.bytes + counts.remote.bytes;
    sum.remote_operations += counts.remote.operations;
    sum.remote_bytes += counts.remote.bytes;
  }

  std::vector<Counts> at_hand_;
  std::unordered_map<PageId, PageTraffic> away_;
};

}  // namespace farside::gas
