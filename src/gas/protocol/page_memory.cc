#include "gas/protocol/page_memory.h"

#include <algorithm>

#include "farside/base/error.h"

#include "base/assert.h"
#include "gas/time_limits.h"

namespace farside::gas {

namespace {

UsageError bad_shape(const std::string& name, const std::string& why, const std::string& remedy) {
  return UsageError({"make global pages", name, why, remedy});
}

PageLayout checked(const std::string& name, const PageShape& shape, team::Rank ranks) {
  if (shape.page_bytes == 0 || shape.page_bytes % 8 != 0) {
    throw bad_shape(name, "a page of " + std::to_string(shape.page_bytes) + " bytes", "make it a multiple of 8");
  }
  if (shape.pages == 0 || shape.pages >> Hold::kPageBits != 0) {
    throw bad_shape(name, std::to_string(shape.pages) + " pages", "make it from 1 to 2^40");
  }
  if (shape.cached_places == 0) throw bad_shape(name, "no place is cached", "cache at least 1");
  if (shape.slots >> Location::kSlotBits != 0) {
    throw bad_shape(name, std::to_string(shape.slots) + " slots at a rank are over 2^26", "use larger pages");
  }
  if (ranks >> Location::kOwnerBits != 0) throw bad_shape(name, "there are over 4095 ranks", "use fewer");
  return {shape, ranks};
}

std::vector<PeerLife> lives_in(team::Team& team) {
  std::vector<PeerLife> lives;
  for (team::Rank rank = 0; rank < team.size(); ++rank) lives.push_back(team.fabric().life(rank));
  return lives;
}

}  // namespace

PageMemory::PageMemory(team::Team& team, const std::string& name, const PageSettings& settings, const GasRules& rules)
    : team_(team),
      self_(team.rank()),
      rules_(rules),
      layout_(checked(name, settings.shape, team.size())),
      lease_(settings.lease),
      region_(team.allocate(name, layout_.region_bytes())),
      local_(region_->local()),
      lives_(lives_in(team)),
      slots_(settings.shape.slots),
      holds_taken_(PageLayout::kHolds) {
  place_pages(settings.first_owner);
  team.fabric().open_channel()->local_fence();
  // No rank looks at an entry before its home has written it.
  if (team.barrier(fabric().in(gas::time_limits::kSetUp)) != Outcome::done) {
    throw Error({"make global pages", name, "not all ranks have come", "call it on all ranks in the same order"});
  }
}

void PageMemory::place_pages(const std::function<team::Rank(PageId)>& first_owner) {
  const team::Rank ranks = team_.size();
  std::vector<std::uint64_t> taken(ranks);  // slots, by owner
  std::vector<std::uint64_t> entry(1 + layout_.sharer_words());
  for (PageId page = 0; page < layout_.shape().pages; ++page) {
    const team::Rank owner = first_owner(page);
    if (owner >= ranks || taken[owner] == layout_.shape().slots) {
      throw bad_shape(local_.name(),
                      "page " + std::to_string(page) + " is to begin at rank " + std::to_string(owner) +
                          (owner >= ranks ? ", which there is not" : ", which has no slot left"),
                      "give the ranks more slots, or it to another rank");
    }
    const std::uint64_t slot = taken[owner]++;
    if (owner == self_) {
      const std::optional<std::uint64_t> free = slots_.take();
      assert_that(free == slot, "slots are taken in the order in which homes name them");
      slots_.fill(slot, page);
    }
    if (layout_.home_of(page) != self_) continue;
    entry.front() = Location{owner, slot, 0, false}.word();
    local_.copy_in(layout_.place(page), std::as_bytes(std::span(entry)));
  }
}

std::uint64_t PageMemory::take_hold(Channel& channel) {
  const std::uint64_t index = free_hold();
  // A rank that looks at holds from here on looks at this one.
  const auto opened = this->opened(self_);
  const Deadline deadline = fabric().in(gas::time_limits::kSetUp);
  std::uint64_t seen = local_.word<AtomicWord>(PageLayout::kOpened).load();
  while (seen <= index) {
    const Result<std::uint64_t> before = channel.compare_swap(opened, seen, index + 1, deadline);
    if (before.status == Outcome::link_lost) continue;  // the word only grows: what lands late changes nothing
    if (!before.done()) throw Error({"use global pages", local_.name(), "this rank was cut off", ""});
    if (before.value == seen) break;
    seen = before.value;
  }
  return index;
}

std::uint64_t PageMemory::free_hold() {
  const MutexLock lock(mutex_);
  if (!rules_.each_thread_has_a_hold) holds_taken_.assign(holds_taken_.size(), false);
  const auto free = std::ranges::find(holds_taken_, false);
  if (free == holds_taken_.end()) {
    throw Error(
        {"use global pages", local_.name(),
         "all " + std::to_string(PageLayout::kHolds) + " holds of this rank are taken",
         "use fewer threads and pinned spans at a time; a put that was given up keeps its hold until the page's "
         "owner answers"});
  }
  *free = true;
  return static_cast<std::uint64_t>(free - holds_taken_.begin());
}

void PageMemory::give_back_hold(std::uint64_t index) {
  const MutexLock lock(mutex_);
  assert_that(!rules_.each_thread_has_a_hold || holds_taken_[index], "a hold that is given back was taken");
  holds_taken_[index] = false;
}

}  // namespace farside::gas
