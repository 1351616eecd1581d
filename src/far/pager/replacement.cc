#include "far/pager/replacement.h"

#include <algorithm>

namespace farside::far {

namespace {

constexpr unsigned kEpochsOfBudget = 16;
constexpr std::uint32_t kTrickle = 16;  // of those who return while main is full, one in so many is let in

}  // namespace

Replacement::Replacement(std::uint64_t budget_pages)
    : budget_(budget_pages), epoch_(std::max<std::uint64_t>(budget_pages / kEpochsOfBudget, 1)) {}

std::uint8_t Replacement::now() const {
  return static_cast<std::uint8_t>(arrivals_.load(std::memory_order_relaxed) / epoch_);
}

PageWord Replacement::arriving(PageWord word) {
  const bool main = belongs_to_main(word);
  if (main) main_.fetch_add(1, std::memory_order_relaxed);
  arrivals_.fetch_add(1, std::memory_order_relaxed);
  const Hint hint = word.hint() == Hint::done ? Hint::none : word.hint();
  return word.with_main(main).with_stamp(now()).with_hint(hint);
}

PageWord Replacement::leaving(PageWord word) {
  if (word.main()) main_.fetch_sub(1, std::memory_order_relaxed);
  return word.with_main(false).with_stamp(now());
}

bool Replacement::belongs_to_main(PageWord word) {
  if (word.state() != PageState::far || age(word) > kEpochsOfBudget || word.hint() == Hint::sequential) return false;
  if (main_.load(std::memory_order_relaxed) < budget_ / 4 * 3) return true;
  return returned_.fetch_add(1, std::memory_order_relaxed) % kTrickle == 0;
}

bool Replacement::may_leave(PageWord word, int level, std::uint64_t pages_here) const {
  if (!word.present() || word.hint() == Hint::pinned) return false;
  if (word.hint() == Hint::done || level == kLevels - 1) return true;
  if (word.hint() == Hint::updated) return false;
  const bool leaves_early = word.hint() == Hint::sequential || word.hint() == Hint::read_mostly;
  const std::uint64_t main = main_.load(std::memory_order_relaxed);
  const bool few_on_probation = pages_here - std::min(main, pages_here) <= budget_ / 8;
  if (word.main() && !leaves_early) return level == 2 || few_on_probation;
  const unsigned at_least = leaves_early ? 1 : 2U >> static_cast<unsigned>(level);
  return age(word) >= (word.state() == PageState::dirty ? 2 * at_least : at_least);
}

}  // namespace farside::far
