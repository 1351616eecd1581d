#include "far/pager/replacement.h"

#include <algorithm>

#include "base/assert.h"

namespace farside::far {

namespace {

constexpr unsigned kEpochsOfBudget = 16;
// In main; then a page has to show that it is still wanted, which costs twice if it must be carried.
constexpr unsigned kTermOfClean = 4 * kEpochsOfBudget;
constexpr unsigned kTermOfDirty = 2 * kTermOfClean;
// Main's shares of the budget, in 32nds. What was written to when it left may come in a little longer than the rest,
// and between the two limits what is clean may leave: so the one takes the other's place, unless there is only the one.
constexpr std::uint64_t kParts = 32;
constexpr std::uint64_t kOfMain = 24;
constexpr std::uint64_t kOfMainWithClean = 25;
constexpr std::uint64_t kOfMainForCarried = 26;
constexpr std::uint32_t kTrickle = 16;  // of the pages that return while main is full, one in so many is let in

}  // namespace

Replacement::Replacement(std::uint64_t budget_pages)
    : budget_(budget_pages), epoch_(std::max<std::uint64_t>(budget_pages / kEpochsOfBudget, 1)) {}

std::uint16_t Replacement::now() const {
  return static_cast<std::uint16_t>(arrivals_.load(std::memory_order_relaxed) / epoch_);
}

PageWord Replacement::arriving(PageWord word) {
  const bool main = belongs_to_main(word);
  if (main) main_.fetch_add(1, std::memory_order_relaxed);
  arrivals_.fetch_add(1, std::memory_order_relaxed);
  const Hint hint = word.hint() == Hint::done ? Hint::none : word.hint();
  return word.with_main(main).with_stamp(now()).with_hint(hint);
}

PageWord Replacement::leaving(PageWord word) {
  assert_that(word.present(), "a page that leaves is here");
  if (word.main()) main_.fetch_sub(1, std::memory_order_relaxed);
  return word.with_main(false).with_carried(word.state() != PageState::clean).with_stamp(now());
}

bool Replacement::belongs_to_main(PageWord word) {
  if (word.hint() == Hint::updated) return true;
  if (word.state() != PageState::far || age(word) > kEpochsOfBudget || word.hint() == Hint::sequential) return false;
  const std::uint64_t most = budget_ / kParts * (word.carried() ? kOfMainForCarried : kOfMain);
  if (main_.load(std::memory_order_relaxed) < most) return true;
  return returned_.fetch_add(1, std::memory_order_relaxed) % kTrickle == 0;
}

bool Replacement::may_leave(PageWord word, int level, std::uint64_t pages_here) const {
  if (!word.present() || word.hint() == Hint::pinned) return false;
  if (word.hint() == Hint::done || level == kLevels - 1) return true;
  if (word.hint() == Hint::updated) return false;
  const bool leaves_early = word.hint() == Hint::sequential || word.hint() == Hint::read_mostly;
  const std::uint64_t main = main_.load(std::memory_order_relaxed);
  const bool few_on_probation = pages_here - std::min(main, pages_here) <= budget_ / 8;
  const bool is_dirty = word.state() == PageState::dirty;
  const bool is_spare = !is_dirty && main > budget_ / kParts * kOfMainWithClean;
  if (word.main())
    return level == 2 || few_on_probation || is_spare || age(word) >= (is_dirty ? kTermOfDirty : kTermOfClean);
  const unsigned at_least = leaves_early ? 1 : 2U >> static_cast<unsigned>(level);
  return age(word) >= (is_dirty ? 2 * at_least : at_least);
}

}  // namespace farside::far
