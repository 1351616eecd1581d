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

void Reclaimer::put_off(const KeyVersions& history, Version& version) {
  version.due = fabric_.now() + grace_;
  due_.push_back({version.due, history.key, version.timestamp});
}

std::size_t Reclaimer::reclaim(std::size_t most, Time now) {
  std::size_t freed = 0;
  // What is put off comes again, but not now.
  for (std::size_t left = due_.size(); freed < most && left != 0 && due_.front().at <= now; --left) {
    const Due due = due_.front();
    due_.pop_front();
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
