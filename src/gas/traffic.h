// traffic.h — counts what a thread does with each page. Most of the time that costs an addition.
#pragma once

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "farside/gas/pages.h"

namespace farside {

class TrafficCounter {
 public:
  /// `at_hand` is a power of two.
  explicit TrafficCounter(std::uint64_t at_hand) : at_hand_(at_hand, PageTraffic{kNone, 0, 0, 0, 0}) {}

  void count(PageId page, std::uint64_t bytes, bool is_remote) {
    PageTraffic& one = at_hand_[page & (at_hand_.size() - 1)];
    if (one.page != page) [[unlikely]] {
      put_away(one);
      one = {page, 0, 0, 0, 0};
    }
    ++one.operations;
    one.bytes += bytes;
    one.remote_operations += is_remote ? 1 : 0;
    one.remote_bytes += is_remote ? bytes : 0;
  }
  [[nodiscard]] std::vector<PageTraffic> all() const {
    TrafficCounter merged = *this;
    for (const PageTraffic& one : at_hand_) merged.put_away(one);
    std::vector<PageTraffic> all;
    for (const auto& [page, traffic] : merged.away_) all.push_back(traffic);
    std::ranges::sort(all, {}, &PageTraffic::page);
    return all;
  }
  void clear() {
    std::ranges::fill(at_hand_, PageTraffic{kNone, 0, 0, 0, 0});
    away_.clear();
  }

 private:
  static constexpr PageId kNone = ~PageId{0};

  void put_away(const PageTraffic& one) {
    if (one.page == kNone) return;
    PageTraffic& sum = away_.try_emplace(one.page, PageTraffic{one.page, 0, 0, 0, 0}).first->second;
    sum.operations += one.operations;
    sum.bytes += one.bytes;
    sum.remote_operations += one.remote_operations;
    sum.remote_bytes += one.remote_bytes;
  }

  std::vector<PageTraffic> at_hand_;
  std::unordered_map<PageId, PageTraffic> away_;
};

}  // namespace farside
