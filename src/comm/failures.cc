#include "comm/failures.h"

#include <algorithm>

namespace farside {

void Failures::add(std::uint64_t number, const Ended& ended) {
  if (!runs_.empty()) {
    Run& newest = runs_.back();
    const bool is_alike = newest.ended.outcome == ended.outcome && newest.ended.lost == ended.lost;
    if (is_alike && newest.last + 1 == number) {
      newest.last = number;
      return;
    }
    if (number <= newest.last) {
      if (!first_of({number, number}).done()) return;
      newest.first = number;
      std::erase_if(runs_,
                    [number, last = newest.last](const Run& run) { return run.first > number && run.last < last; });
      return;
    }
  }
  runs_.push_back({number, number, ended});
  if (runs_.size() <= kMaxRuns) return;
  runs_[1].first = runs_[0].first;
  runs_[1].ended = runs_[0].ended;
  runs_.pop_front();
}

Ended Failures::first_of(const Request& request) const {
  const auto run = std::ranges::lower_bound(runs_, request.first, {}, &Run::last);
  return run == runs_.end() || run->first > request.last ? Ended{} : run->ended;
}

}  // namespace farside
