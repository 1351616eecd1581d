#include "cache/slots.h"

#include <array>
#include <span>

#include "base/assert.h"

namespace farside::cache {

namespace {

constexpr std::uint64_t kToken = offsetof(SlotHeader, token);
static_assert(kToken == 8);  // the id is before it
constexpr std::uint64_t kLabel = offsetof(SlotHeader, key);

}  // namespace

LocalSpan Slots::data(std::uint32_t slot) const {
  assert_that(slot < geometry_.layout().slot_count, "a slot that is filled is one of the node's");
  return region_.local().span(geometry_.slot_offset(slot) + sizeof(SlotHeader), geometry_.layout().block_bytes);
}

void Slots::publish(Channel& channel, std::uint32_t slot, const BlockKey& key, std::uint64_t bytes,
                    std::uint64_t token) const {
  assert_that(slot < geometry_.layout().slot_count, "a slot that is published is one of the node's");
  assert_that(token != 0, "a published slot has a token");
  assert_that(bytes <= geometry_.layout().block_bytes, "a published block fits in its slot");
  const std::uint64_t offset = geometry_.slot_offset(slot);
  const BlockLabel label{key, bytes, 0};
  region_.local().copy_in(offset + kLabel, std::as_bytes(std::span(&label, 1)));
  channel.local_fence();
  region_.local().word<ControlWord>(offset + kToken).store(token);
  region_.local().word<ControlWord>(offset).store(block_id(key));
}

void Slots::retract(Channel& channel, std::uint32_t slot) const {
  assert_that(slot < geometry_.layout().slot_count, "a slot that is retracted is one of the node's");
  const std::uint64_t offset = geometry_.slot_offset(slot);
  region_.local().word<ControlWord>(offset).store(0);
  region_.local().word<ControlWord>(offset + kToken).store(0);
  channel.local_fence();
}

bool Slots::copy(Channel& channel, const BlockKey& key, Place from, std::uint32_t into, Deadline deadline) const {
  assert_that(into < geometry_.layout().slot_count, "a slot that is copied into is one of the node's");
  if (!reachable(from)) return false;
  const Header before = read_header(channel, from, deadline);
  if (rules_.compares_ids && before.id != block_id(key)) return false;
  if (rules_.compares_tokens && before.token == 0) return false;

  // The label comes along with the bytes, into the local slot, which publish overwrites with an equal one.
  const std::uint64_t covered = sizeof(BlockLabel) + geometry_.block_length(key);
  const std::uint64_t local = geometry_.slot_offset(into) + kLabel;
  const RemoteSpan remote = region_.of(from.rank).span(geometry_.slot_offset(from.slot) + kLabel, covered);
  if (channel.read(region_.local().span(local, covered), remote, deadline) != Outcome::done) return false;

  const Header after = rules_.reads_header_again ? read_header(channel, from, deadline) : before;
  if (rules_.compares_ids && after.id != before.id) return false;
  if (rules_.compares_tokens && after.token != before.token) return false;
  BlockLabel label{};
  region_.local().copy_out(local, std::as_writable_bytes(std::span(&label, 1)));
  return !rules_.compares_keys || (label.key == key && label.bytes == geometry_.block_length(key));
}

bool Slots::holds(Channel& channel, BlockId id, Place at, Deadline deadline) const {
  return reachable(at) && read_header(channel, at, deadline).id == id;
}

Slots::Header Slots::read_header(Channel& channel, Place at, Deadline deadline) const {
  std::array<std::uint64_t, 2> words{};
  const std::uint64_t offset = geometry_.slot_offset(at.slot);
  const Outcome outcome = rules_.reads_header_words_alone
                              ? peers_.read_each(channel, words, at.rank, offset, deadline)
                              : peers_.read(channel, LocalSpan(words), at.rank, offset, deadline);
  if (outcome != Outcome::done) return {};
  return {.id = words[0], .token = words[1]};
}

// Places come out of memory that others write.
bool Slots::reachable(Place place) const {
  return place.slot < geometry_.layout().slot_count && peers_.reachable(place.rank);
}

}  // namespace farside::cache
