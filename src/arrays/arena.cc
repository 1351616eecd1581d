#include "arrays/arena.h"

#include <algorithm>

#include "farside/base/rounding.h"

#include "base/assert.h"

namespace farside::arrays {

namespace {

constexpr std::uint64_t kLine = 64;
// The bytes, or places, that are worth a barrier of their own.
constexpr std::uint64_t kBatchBytes = 256U << 10U;
constexpr std::size_t kBatchPlaces = 8;

}  // namespace

Block::Place Arena::take(std::uint64_t bytes) {
  bytes = std::max(kLine, round_up(bytes, kLine));
  const bool worth_a_barrier = open_.bytes >= kBatchBytes || open_.places.size() >= kBatchPlaces;
  if (worth_a_barrier || limits_.strict) close_batch();
  while (closed_.size() > (limits_.strict ? 0 : kUnderWay)) free_oldest();
  while (use_.held_back > limits_.held_bytes) {
    if (closed_.empty()) close_batch();
    free_oldest();
  }

  Block::Place place{};
  if (!find(bytes, place)) {
    const std::uint64_t grown = std::max(bytes, limits_.segment_bytes);
    backing_.grow(grown);
    use_.reserved += grown;
    set_free({segments_++, 0, grown});
    const bool has_room = find(bytes, place);
    assert_that(has_room, "a new segment has room");
  }
  use_.in_use += bytes;
  use_.high_water = std::max(use_.high_water, use_.in_use + use_.held_back);
  return place;
}

void Arena::give_back(const Block::Place& place) {
  assert_that(place.segment < segments_ && place.bytes <= use_.in_use, "what is given back was taken");
  open_.places.push_back(place);
  open_.bytes += place.bytes;
  use_.in_use -= place.bytes;
  use_.held_back += place.bytes;
}

void Arena::close_batch() {
  if (open_.places.empty()) return;
  open_.barrier = backing_.begin_barrier();
  closed_.push_back(std::exchange(open_, {}));
}

void Arena::free_oldest() {
  assert_that(!closed_.empty() && closed_.front().bytes <= use_.held_back, "what is held back is in a batch");
  const Batch& oldest = closed_.front();
  if (!backing_.has_ended(oldest.barrier)) ++use_.waits;
  backing_.wait(oldest.barrier);
  for (const Block::Place& place : oldest.places) set_free(place);
  use_.held_back -= oldest.bytes;
  closed_.pop_front();
}

void Arena::set_free(const Block::Place& place) {
  At at = {place.segment, place.offset};
  std::uint64_t bytes = place.bytes;
  const auto after = free_.find({place.segment, place.offset + bytes});
  if (after != free_.end()) {
    bytes += after->second;
    free_.erase(after);
  }
  const auto next = free_.lower_bound(at);
  assert_that(next == free_.end() || next->first.first != at.first || next->first.second > at.second + bytes,
              "what becomes free was not, nor touches what stays free behind it");
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    assert_that(before->first.first != at.first || before->first.second + before->second <= at.second,
                "what is free ends before what becomes free");
    if (before->first.first == at.first && before->first.second + before->second == at.second) {
      at = before->first;
      bytes += before->second;
      free_.erase(before);
    }
  }
  free_[at] = bytes;
}

bool Arena::find(std::uint64_t bytes, Block::Place& found) {
  const auto fits = std::ranges::find_if(free_, [bytes](const auto& hole) { return hole.second >= bytes; });
  if (fits == free_.end()) return false;
  const auto [at, room] = *fits;
  free_.erase(fits);
  if (room > bytes) free_[{at.first, at.second + bytes}] = room - bytes;
  found = {at.first, at.second, bytes};
  return true;
}

}  // namespace farside::arrays
