#include "far/pager/read_ahead.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "farside/base/mix.h"

#include "base/assert.h"

namespace farside::far {

namespace {

constexpr std::int64_t kNear = 512;  // pages between two faults of one walk, at most
constexpr std::int64_t kShort = 4;   // pages of a step of one that is not regular
constexpr std::uint32_t kFirst = 4;
constexpr std::uint32_t kJudged = 8;  // windows
constexpr std::uint32_t kMaxOfSparse = 16;

}  // namespace

ReadAhead::Window ReadAhead::after_fault(PageNumber page, bool is_sequential) {
  const MutexLock lock(mutex_);
  Walk& walk = walk_of(page);
  walk.used_at = ++faults_;

  std::uint32_t hits = 0;
  const std::int64_t steps = steps_along(walk, page);
  if (steps > 0) {
    hits = go_on(walk, steps);
  } else {
    if (walk.last >= 0) walk.steps.at(walk.steps_taken++ % walk.steps.size()) = page - walk.last;
    const auto stride = is_sequential ? std::optional<std::int64_t>(1) : stride_of(walk);
    walk.stride = stride.value_or(0);
    walk.count = !stride ? 0 : is_sequential ? most_ : std::clamp(walk.count / 2, std::min(kFirst, most_), most_);
  }
  walk.last = page;
  return {walk.stride, walk.count, hits};
}

// Sizes the next window, and says how many pages of the last one were used: up to a fault within it, which there was no
// room for, or what its sample says. Where samples differ, so does the size: else it could keep step with the walk.
std::uint32_t ReadAhead::go_on(Walk& walk, std::int64_t steps) const {
  if (steps <= walk.count) return static_cast<std::uint32_t>(steps - 1);
  const std::uint32_t last = walk.count;
  const bool is_right_after = steps == last + 1;
  ++walk.windows;
  walk.wanted += is_right_after ? 1 : 0;
  walk.common = std::gcd(walk.common, steps);
  walk.count = std::min(last * 2, walk.is_sparse ? std::min(kMaxOfSparse, most_) : most_);
  if (walk.leaves_out) walk.count -= static_cast<std::uint32_t>(mix(faults_) % (walk.count / 4 + 1));
  if (walk.windows == kJudged) judge(walk);
  return is_right_after ? last : 0;
}

// If all that was wanted lies a multiple of some steps apart, that is its stride.
void ReadAhead::judge(Walk& walk) {
  walk.leaves_out = walk.wanted < walk.windows;
  walk.is_sparse = walk.wanted * 2 < walk.windows;
  if (walk.leaves_out && walk.common > 1) {
    walk.stride *= walk.common;
    walk.leaves_out = walk.is_sparse = false;
  }
  walk.windows = walk.wanted = 0;
  walk.common = 0;
}

// The one whose window ends nearest; or, when none is near, the one that was not used for longest.
ReadAhead::Walk& ReadAhead::walk_of(std::int64_t page) {
  Walk* nearest = nullptr;
  std::int64_t distance = kNear + 1;
  for (Walk& walk : walks_) {
    if (walk.last < 0) continue;
    const std::int64_t of_this = std::abs(page - walk.last - walk.stride * walk.count);
    if (of_this >= distance) continue;
    nearest = &walk;
    distance = of_this;
  }
  if (nearest != nullptr) return *nearest;
  Walk& oldest = *std::ranges::min_element(walks_, {}, &Walk::used_at);
  oldest = Walk{};
  return oldest;
}

// How many strides after the last fault this one is, when it goes on that way; otherwise 0. It comes early when there
// was no room for all of the window, and late when pages after it were here anyway.
std::int64_t ReadAhead::steps_along(const Walk& walk, std::int64_t page) {
  assert_that(walk.count == 0 || walk.stride != 0, "a walk with a window has a stride");
  if (walk.count == 0 || (page - walk.last) % walk.stride != 0) return 0;
  const std::int64_t steps = (page - walk.last) / walk.stride;
  return steps > 0 && steps <= 2 * (std::int64_t{walk.count} + 1) ? steps : 0;
}

std::optional<std::int64_t> ReadAhead::stride_of(const Walk& walk) {
  const auto agreed = majority(walk);
  return agreed ? agreed : drift(walk);
}

// Boyer and Moore's vote, then the count: more than half of what is remembered, and at least two.
std::optional<std::int64_t> ReadAhead::majority(const Walk& walk) {
  const std::size_t known = std::min(walk.steps_taken, walk.steps.size());
  std::int64_t candidate = 0;
  std::size_t lead = 0;
  for (std::size_t i = 0; i < known; ++i) {
    if (lead == 0) candidate = walk.steps.at(i);
    if (walk.steps.at(i) == candidate) {
      ++lead;
    } else {
      --lead;
    }
  }
  const auto end = walk.steps.begin() + static_cast<std::ptrdiff_t>(known);
  const auto votes = static_cast<std::size_t>(std::count(walk.steps.begin(), end, candidate));
  if (candidate != 0 && votes >= 2 && votes * 2 > known) return candidate;
  return std::nullopt;
}

// For irregular sequential access: returns the step to a neighbour, when most steps are short and lead one way.
std::optional<std::int64_t> ReadAhead::drift(const Walk& walk) {
  const std::size_t known = std::min(walk.steps_taken, walk.steps.size());
  std::size_t near = 0;
  std::int64_t way = 0;
  for (std::size_t i = 0; i < known; ++i) {
    if (std::abs(walk.steps.at(i)) > kShort) continue;
    ++near;
    way += walk.steps.at(i);
  }
  const auto least = static_cast<std::int64_t>(known / 2);
  if (known < 4 || near * 4 < known * 3 || std::abs(way) < least) return std::nullopt;
  return way > 0 ? 1 : -1;
}

}  // namespace farside::far
