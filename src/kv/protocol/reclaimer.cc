#include "kv/protocol/reclaimer.h"

namespace farside::kv {

void Reclaimer::schedule(KeyVersions& history, Version& version) {
  if (version.due == Version::kNotDue && is_over(history, version)) put_off(history, version);
}

bool Reclaimer::is_over(KeyVersions& history, const Version& version) const {
  if (!version.committed()) return false;
  if (&version != history.newest()) return true;
  const bool is_everywhere = (version.mark & RecordHead::kEverywhere) != 0;
  return version.erased && (is_everywhere || !rules_.keeps_unsettled_tombstones);
}

void Reclaimer::put_off(KeyVersions& history, Version& version) {
  version.due = fabric_.now() + grace_;
  const Due due{version.due, history.key, version.timestamp, version.place.bytes};
  if (&version == history.newest()) {
    erased_.push_back(due);
  } else {
    superseded_.push_back(due);
    superseded_bytes_ += due.bytes;
  }
}

std::size_t Reclaimer::reclaim(std::size_t most, Time now) {
  const std::size_t freed = reclaim_superseded(most, now);
  return freed + reclaim_erased(most - freed, now);
}

// Whoever wants one that has gone starts again.
std::size_t Reclaimer::reclaim_superseded(std::size_t most, Time now) {
  std::size_t freed = 0;
  while (freed < most && !superseded_.empty()) {
    const Due due = superseded_.front();
    const bool are_many = superseded_bytes_ > most_superseded_bytes_;
    if (now < due.at + (are_many ? grace_ / kLeastPart - grace_ : Duration::zero())) break;
    superseded_.pop_front();
    superseded_bytes_ -= due.bytes;
    freed += reclaim(due) ? 1 : 0;
  }
  return freed;
}

std::size_t Reclaimer::reclaim_erased(std::size_t most, Time now) {
  std::size_t freed = 0;
  // What is put off comes again, but not now.
  for (std::size_t left = erased_.size(); freed < most && left != 0 && erased_.front().at <= now; --left) {
    const Due due = erased_.front();
    erased_.pop_front();
    freed += reclaim(due) ? 1 : 0;
  }
  return freed;
}

bool Reclaimer::reclaim(const Due& due) {
  KeyVersions* history = cells_.opened(due.key);
  Version* version = history == nullptr ? nullptr : history->find_old(due.timestamp);
  if (version == nullptr || version->due != due.at) return false;  // it was put off, or dropped
  const bool is_erased = version == history->newest();
  if (is_erased && history->versions.size() != 1) {  // the others were prepared meanwhile
    put_off(*history, *version);
    return false;
  }
  if (is_erased) forget(due.timestamp);
  cells_.drop(*history, due.timestamp);
  if (is_erased) {
    cells_.remove(*history);
  } else {
    cells_.close(*history);
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
  channel_.local_fence();  // whoever finds the key gone finds this
}

}  // namespace farside::kv
