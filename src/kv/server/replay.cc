#include "kv/server/replay.h"

#include <functional>

namespace farside::kv {

namespace {

using Restore = std::function<Answer(const Prepare&)>;

Answer replay(Store& store, const Request& change, const Restore& restore) {
  const Prepare part{change.timestamp, change.siblings, change.servers, change.writes};
  if (change.settled != 0) store.settle({change.settled, change.session});
  Answer answer = Answer::done;
  switch (change.kind) {
    case RequestKind::prepare: answer = restore(part); break;
    case RequestKind::put:
      answer = change.writes.empty() ? Answer::refused : restore(part);
      if (answer == Answer::done) (void)store.commit(change.timestamp);
      break;
    case RequestKind::commit: store.restore_commit(change.timestamp, change.servers); break;
    case RequestKind::abort: store.abort(change.timestamp); break;
    case RequestKind::use:  // it only tells what is settled, or where a transaction is committed
      if (change.timestamp != Timestamp{}) store.note_everywhere(change.timestamp);
      break;
    case RequestKind::fate: store.bar_unknown(change.timestamp); break;  // of a snapshot
    default: answer = Answer::refused;
  }
  store.reclaim_at_once();
  return answer;
}

}  // namespace

Answer replay(Store& store, const Request& change) {
  return replay(store, change, [&store](const Prepare& part) { return store.restore(part); });
}

Answer replay_at(Store& store, const Request& change, std::span<const TakenPlace> places) {
  return replay(store, change, [&](const Prepare& part) { return store.restore_at(part, places); });
}

Answer replay_version_at(Store& store, const Request& version, std::span<const TakenPlace> places) {
  if (version.kind != RequestKind::put || version.writes.size() != 1 || places.size() != 1) return Answer::refused;
  const Answer answer = store.restore_version_at(version.timestamp, version.siblings, version.writes.front(),
                                                 version.about, places.front());
  store.reclaim_at_once();
  return answer;
}

}  // namespace farside::kv
