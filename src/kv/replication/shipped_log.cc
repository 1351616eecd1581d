#include "kv/replication/shipped_log.h"

#include <limits>

#include "kv/server/replay.h"

namespace farside::kv {

namespace {

constexpr std::string_view kDiskFlaw = "its disk is full, or has failed, as the log says in detail";

/// No epoch follows it.
constexpr std::uint64_t kLastEpoch = std::numeric_limits<std::uint64_t>::max();

}  // namespace

bool ShippedLog::take_some() {
  unsigned frames = 0;
  while (is_sound() && frames < kFramesAtOnce && take_frame()) ++frames;
  if (frames == 0) return false;
  if (is_sound() && disk_ != nullptr && rules_.keeps_before_taking) note_disk(disk_->keep());
  channel_.local_fence();  // it was copied before its place is given back
  region_.word<ControlWord>(ShippingRing::kTaken).store(is_sound() ? position_ : ShippingRing::kGivenUp);
  return true;
}

bool ShippedLog::take_frame() {
  ShippedFrameHead head{};
  const std::uint64_t at = ring_.offset(position_);
  region_.copy_out(at, std::as_writable_bytes(std::span(&head, 1)));
  if (head.position != position_ || head.bytes > ring_.most_piece(position_)) return false;
  piece_.resize(ShippedFrameHead::frame_bytes(head.bytes) - sizeof head);
  region_.copy_out(at + sizeof head, piece_);
  piece_.resize(head.bytes);
  if (checksum_of(head, piece_.data()) != head.checksum) return false;  // it is arriving
  position_ += ShippedFrameHead::frame_bytes(head.bytes);
  entry_.insert(entry_.end(), piece_.begin(), piece_.end());
  if (entry_.size() + head.rest > ShippedEntry::kMaxBytes) flaw_ = "an entry is longer than any can be";
  if (head.rest != 0 || !is_sound()) return true;
  carry_out();
  entry_.clear();
  return true;
}

void ShippedLog::carry_out() {
  const auto entry = ShippedEntry::decode(entry_);
  const auto change = entry && !entry->request.empty() ? Request::decode(entry->request) : std::nullopt;
  if (!entry || (!entry->request.empty() && !change)) {
    flaw_ = "an entry is no change";
    return;
  }
  for (const GoneKey& gone : entry->gone) store_.drop_gone(gone);
  if (!change) return;
  if (carry_out(*entry, *change) != Answer::done) {
    flaw_ = "its memory is not laid out as that of its primary";
  } else if (disk_ != nullptr) {
    note_disk(note_on_disk(*entry, *change));
  }
}

void ShippedLog::note_disk(bool is_kept) {
  if (!is_kept && needs_disk_) flaw_ = kDiskFlaw;
}

bool ShippedLog::note_on_disk(const ShippedEntry& entry, const Request& request) {
  if (!is_begun_) {
    is_begun_ = entry.part == ShippedPart::begin_of_copy && disk_->begin_copy(request.session, request.settled);
    return is_begun_;
  }
  switch (entry.part) {
    case ShippedPart::begin_of_copy: return false;
    case ShippedPart::change: disk_->append(entry.request); break;
    case ShippedPart::version: disk_->append_version(entry.request); break;
    case ShippedPart::end_of_copy:
      disk_->append_forgotten({request.timestamp, request.settled});
      return disk_->claim(CopyStanding::standby, epoch_);
  }
  return true;
}

Answer ShippedLog::carry_out(const ShippedEntry& entry, const Request& request) {
  switch (entry.part) {
    case ShippedPart::change: break;
    case ShippedPart::version: return replay_version_at(store_, request, entry.places);
    case ShippedPart::begin_of_copy: return request.kind == RequestKind::use ? Answer::done : Answer::refused;
    case ShippedPart::end_of_copy:
      if (request.session == kLastEpoch) return Answer::refused;
      store_.forget({request.timestamp, request.settled});
      epoch_ = request.session;
      is_full_ = true;
      return Answer::done;
  }
  return rules_.replays_in_place ? replay_at(store_, request, entry.places) : replay(store_, request);
}

}  // namespace farside::kv
