#include "comm/failures.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/assert.h"

namespace farside::comm {

void Failures::add(Run added) {
  const std::uint64_t number = added.first;
  if (!runs_.empty()) {
    Run& newest = runs_.back();
    const bool is_alike = newest.status.outcome == added.status.outcome && newest.status.lost == added.status.lost &&
                          newest.error == added.error;
    if (is_alike && newest.last + 1 == number) {
      newest.last = number;
      return;
    }
    if (number <= newest.last) {
      if (find({number, number}) != nullptr) return;
      newest.first = number;
      std::erase_if(runs_,
                    [number, last = newest.last](const Run& run) { return run.first > number && run.last < last; });
      return;
    }
  }
  try {
    runs_.push_back(std::move(added));
  } catch (const std::bad_alloc&) {
    if (runs_.empty()) throw;
    runs_.back().last = number;  // as of two runs that become one
    return;
  }
  if (runs_.size() <= kMaxRuns) return;
  assert_that(runs_[0].last < runs_[1].first, "runs of failures ascend and are apart");
  runs_[1].first = runs_[0].first;
  runs_[1].status = runs_[0].status;
  runs_[1].error = runs_[0].error;
  runs_.pop_front();
}

const Failures::Run* Failures::find(const Request& request) const {
  const auto run = std::ranges::lower_bound(runs_, request.first, {}, &Run::last);
  return run == runs_.end() || run->first > request.last ? nullptr : &*run;
}

Status Failures::first_of(const Request& request) const {
  const Run* const run = find(request);
  if (run == nullptr) return {};
  if (run->error != nullptr) std::rethrow_exception(run->error);
  return run->status;
}

}  // namespace farside::comm
