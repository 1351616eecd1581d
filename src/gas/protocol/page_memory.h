// page_memory.h — the memory behind pages that move, at all ranks, and what the threads of this rank share of it: which
// slots are free, and which holds.
//
// Thread safety: every call, from any thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "farside/gas/page.h"
#include "farside/team/team.h"

#include "base/mutex.h"
#include "gas/protocol/page_layout.h"
#include "gas/protocol/rules.h"
#include "gas/protocol/slot_table.h"

namespace farside::gas {

struct PageSettings {
  PageShape shape;
  std::function<team::Rank(PageId)> first_owner;  ///< the same at all ranks
  /// A lock that was seen unchanged for so long is broken; the rank that has such a hold is evicted.
  Duration lease = kDefaultLease;
};

class PageMemory {
 public:
  /// Collective. Throws Error when it cannot be set up, UsageError for a shape that is none.
  PageMemory(team::Team& team, const std::string& name, const PageSettings& settings, const GasRules& rules = {});

  [[nodiscard]] team::Team& team() const noexcept { return team_; }
  [[nodiscard]] team::Rank self() const noexcept { return self_; }
  [[nodiscard]] Fabric& fabric() const noexcept { return team_.fabric(); }
  [[nodiscard]] const PageLayout& layout() const noexcept { return layout_; }
  [[nodiscard]] const GasRules& rules() const noexcept { return rules_; }
  [[nodiscard]] Duration lease() const noexcept { return lease_; }
  [[nodiscard]] SlotTable& slots() noexcept { return slots_; }

  // Words.
  [[nodiscard]] RemoteWord<AtomicWord> place(PageId page) const { return at_home(page, layout_.place(page)); }
  [[nodiscard]] RemoteWord<AtomicWord> sharers(PageId page, std::uint64_t word) const {
    return at_home(page, layout_.sharers(page, word));
  }
  [[nodiscard]] RemoteWord<AtomicWord> revoked(team::Rank rank, PageId page) const {
    return region_->of(rank).word<AtomicWord>(layout_.revoked(page));
  }
  [[nodiscard]] LocalWord<AtomicWord> own_revoked(PageId page) const {
    return local_.word<AtomicWord>(layout_.revoked(page));
  }
  [[nodiscard]] RemoteWord<AtomicWord> opened(team::Rank rank) const {
    return region_->of(rank).word<AtomicWord>(PageLayout::kOpened);
  }
  [[nodiscard]] RemoteWord<ControlWord> hold(team::Rank rank, std::uint64_t index) const {
    return region_->of(rank).word<ControlWord>(layout_.hold(index));
  }
  [[nodiscard]] LocalWord<ControlWord> own_hold(std::uint64_t index) const {
    return local_.word<ControlWord>(layout_.hold(index));
  }
  [[nodiscard]] RemoteWord<AtomicWord> distrusted(team::Rank at, team::Rank rank) const {
    return region_->of(at).word<AtomicWord>(PageLayout::distrusted(rank));
  }
  [[nodiscard]] bool distrusts(team::Rank rank) const {
    return (local_.word<AtomicWord>(PageLayout::distrusted(rank)).load() >> rank % 64 & 1U) != 0;
  }

  /// Returns whether the process of `rank` that has a part in this memory is lost, even if a new one has come back.
  [[nodiscard]] bool has_left(team::Rank rank) const {
    return fabric().lost(rank) || fabric().life(rank) != lives_[rank];
  }
  /// Takes the access of that process to this one away. Has no effect on a new one.
  [[nodiscard]] Outcome revoke(team::Rank rank, Deadline deadline) {
    return fabric().revoke(rank, lives_[rank], deadline);
  }

  // Slots.
  [[nodiscard]] const RemoteRegion& of(team::Rank rank) const noexcept { return region_->of(rank); }
  /// A peer's entry is checked before it is believed.
  [[nodiscard]] bool exists(const Location& place) const noexcept {
    return place.owner < team_.size() && place.slot < layout_.shape().slots;
  }
  [[nodiscard]] RemoteSpan in_slot(const Location& place, std::uint64_t offset, std::uint64_t bytes) const {
    return region_->of(place.owner).span(layout_.slot(place.slot) + offset, bytes);
  }
  [[nodiscard]] LocalSpan own_slot(std::uint64_t slot) const {
    return local_.span(layout_.slot(slot), layout_.shape().page_bytes);
  }

  /// A word of a page that is here, and pinned.
  [[nodiscard]] LocalWord<ControlWord> own_word(std::uint64_t slot, std::uint64_t offset) const {
    return local_.word<ControlWord>(layout_.slot(slot) + offset);
  }

  /// A hold of this rank's own, until it is given back. Throws Error when all are taken.
  [[nodiscard]] std::uint64_t take_hold(Channel& channel);
  void give_back_hold(std::uint64_t index);

 private:
  [[nodiscard]] RemoteWord<AtomicWord> at_home(PageId page, std::uint64_t offset) const {
    return region_->of(layout_.home_of(page)).word<AtomicWord>(offset);
  }
  [[nodiscard]] std::uint64_t free_hold();
  void place_pages(const std::function<team::Rank(PageId)>& first_owner);

  team::Team& team_;
  const team::Rank self_;
  const GasRules rules_;
  const PageLayout layout_;
  const Duration lease_;
  std::unique_ptr<team::SymmetricRegion> region_;
  const Region& local_;
  const std::vector<PeerLife> lives_;  // by rank, when this memory was made
  SlotTable slots_;

  Mutex mutex_;
  std::vector<bool> holds_taken_ GUARDED_BY(mutex_);
};

}  // namespace farside::gas
