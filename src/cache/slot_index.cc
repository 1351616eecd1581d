#include "cache/slot_index.h"

#include "base/assert.h"

namespace farside::cache {

SlotIndex::SlotIndex(const CacheLayout& layout, double singlet_ratio, HostIndex index)
    : index_(index), lists_(layout.slot_count, singlet_ratio), keys_(layout.slot_count) {
  assert_that(layout.slot_count <= kMaximumSlots, "every slot has a number of 24 bits");
  free_.reserve(layout.slot_count);
  for (std::uint64_t slot = layout.slot_count; slot > 0; --slot) free_.push_back(static_cast<std::uint32_t>(slot - 1));
}

void SlotIndex::set_board(const UseBoard& board) {
  const MutexLock lock(mutex_);
  board_ = &board;
}

std::variant<SlotIndex::Here, SlotIndex::OnItsWay, SlotIndex::Yours> SlotIndex::look(const BlockKey& key) {
  const MutexLock lock(mutex_);
  if (const auto found = places_.find(key); found != places_.end()) return found->second;
  if (on_their_way_.insert(key).second) return Yours{};
  return OnItsWay{};
}

void SlotIndex::arrived(const BlockKey& key, Here place, Time now) {
  const MutexLock lock(mutex_);
  assert_that(place.slot < keys_.size(), "a block arrives in one of the node's slots");
  const std::size_t was_on_its_way = on_their_way_.erase(key);
  assert_that(was_on_its_way == 1, "a block arrives by the thread that fetched it");
  const bool is_new = places_.emplace(key, place).second;
  assert_that(is_new, "a block is in at most one slot");
  keys_[place.slot] = key;
  index_.add(block_id(key), place.slot);
  lists_.add(place.slot, now);
}

void SlotIndex::given_up(const BlockKey& key) {
  const MutexLock lock(mutex_);
  on_their_way_.erase(key);
}

std::optional<std::uint32_t> SlotIndex::take_free() {
  const MutexLock lock(mutex_);
  if (free_.empty()) return std::nullopt;
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  return slot;
}

void SlotIndex::give_back(std::uint32_t slot) {
  const MutexLock lock(mutex_);
  assert_that(slot < keys_.size(), "a slot that is given back is one of the node's");
  free_.push_back(slot);
}

std::optional<SlotIndex::Candidate> SlotIndex::take_candidate() {
  const MutexLock lock(mutex_);
  if (const auto slot = lists_.take_overflow(*board_)) return Candidate{*slot, keys_[*slot], true};
  if (const auto slot = lists_.take_oldest(*board_)) return Candidate{*slot, keys_[*slot], false};
  if (const auto slot = lists_.take_singlet()) return Candidate{*slot, keys_[*slot], true};
  return std::nullopt;
}

void SlotIndex::keep_singlet(std::uint32_t slot, Time now) {
  const MutexLock lock(mutex_);
  lists_.keep_singlet(slot, now);
}

void SlotIndex::remove(const Candidate& candidate) {
  const MutexLock lock(mutex_);
  places_.erase(candidate.key);
  index_.remove(block_id(candidate.key), candidate.slot);
  ++counters_.discarded;
}

void SlotIndex::restore(const Candidate& candidate, Time now) {
  const MutexLock lock(mutex_);
  if (places_.contains(candidate.key)) {
    lists_.keep_singlet(candidate.slot, now);
  } else {
    free_.push_back(candidate.slot);
  }
}

void SlotIndex::count_from_peer(std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  ++counters_.blocks_from_peers;
  counters_.bytes_from_peers += bytes;
}

void SlotIndex::count_from_file(std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  ++counters_.blocks_from_files;
  counters_.bytes_from_files += bytes;
}

CacheCounters SlotIndex::counters() const {
  const MutexLock lock(mutex_);
  CacheCounters counters = counters_;
  counters.blocks = places_.size();
  counters.singlets = lists_.singlets();
  return counters;
}

}  // namespace farside::cache
