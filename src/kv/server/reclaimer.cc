#include "kv/server/reclaimer.h"

#include "base/assert.h"

namespace farside::kv {

void Reclaimer::schedule(Version& version) {
  if (version.due == Version::kNotDue && is_over(version)) put_off(version);
}

bool Reclaimer::is_over(const Version& version) const {
  if (!version.committed()) return false;
  if (&version != version.key->newest()) return true;
  const bool is_everywhere = (version.mark & RecordHead::kEverywhere) != 0;
  return version.erased && (is_everywhere || !rules_.keeps_unsettled_tombstones);
}

void Reclaimer::put_off(Version& version) {
  version.due = fabric_.now() + grace_;
  const Due due{version.due, VersionRef(version), version.place.bytes};
  if (&version == version.key->newest()) {
    erased_.push_back(due);
  } else {
    superseded_.push_back(due);
    superseded_bytes_ += due.bytes;
  }
}

std::size_t Reclaimer::reclaim(std::size_t most, Time now) {
  const std::size_t freed = reclaim_superseded(most, now, {most_superseded_bytes_, grace_ / kLeastPart});
  return freed + reclaim_erased(most - freed, now);
}

std::size_t Reclaimer::reclaim_early(std::size_t most, Time now, bool at_once) {
  return reclaim_superseded(most, now, {0, at_once ? Duration::zero() : grace_ / kLeastPart});
}

// A reader of one that has gone begins again.
std::size_t Reclaimer::reclaim_superseded(std::size_t most, Time now, const Early& early) {
  std::size_t freed = 0;
  while (freed < most && !superseded_.empty()) {
    const Due due = superseded_.front();
    const bool are_many = superseded_bytes_ > early.beyond_bytes;
    if (now < due.at + (are_many ? early.grace - grace_ : Duration::zero())) break;
    superseded_.pop_front();
    assert_that(superseded_bytes_ >= due.bytes, "the bytes of each superseded version were counted");
    superseded_bytes_ -= due.bytes;
    if (superseded_.size() > 2 * kAhead) superseded_[2 * kAhead].version.fetch();
    if (superseded_.size() > kAhead) superseded_[kAhead].version.fetch_key();
    freed += reclaim(due) ? 1 : 0;
  }
  return freed;
}

std::size_t Reclaimer::reclaim_erased(std::size_t most, Time now) {
  std::size_t freed = 0;
  // A version that is put off comes again, but not now.
  for (std::size_t left = erased_.size(); freed < most && left != 0 && erased_.front().at <= now; --left) {
    const Due due = erased_.front();
    erased_.pop_front();
    freed += reclaim(due) ? 1 : 0;
  }
  return freed;
}

bool Reclaimer::reclaim(const Due& due) {
  Version* const version = due.version.find();
  if (version == nullptr || version->due != due.at) return false;  // it was put off, or dropped
  KeyVersions& history = *version->key;
  const bool is_erased = version == history.newest();
  if (is_erased && history.versions.size() != 1) {  // the others were prepared meanwhile
    put_off(*version);
    return false;
  }
  if (is_erased) forget(version->timestamp);
  if (is_erased && notes_gone_keys_) gone_keys_.push_back({history.key, version->timestamp});
  cells_.drop(*version);
  if (is_erased) {
    cells_.remove(history);
  } else {
    cells_.close(history);
  }
  return true;
}

void Reclaimer::forget(const Timestamp& timestamp) {
  if (timestamp <= forgotten_) return;
  forgotten_ = timestamp;
  MemoryHead head{};
  head.forgotten = timestamp;
  const std::array words{timestamp.time, timestamp.session, head.seal_of_forgotten()};
  region_.copy_in(offsetof(MemoryHead, forgotten), std::as_bytes(std::span(words)));
  channel_.local_fence();  // a reader that finds the key gone finds this
}

}  // namespace farside::kv
