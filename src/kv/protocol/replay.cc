#include "kv/protocol/replay.h"

namespace farside::kv {

namespace {

Answer restore(Store& store, const Request& change) {
  return store.restore({change.timestamp, change.siblings, change.servers, change.writes});
}

}  // namespace

Answer replay(Store& store, const Request& change) {
  if (change.settled != 0) store.settle({change.settled, change.session});
  Answer answer = Answer::done;
  switch (change.kind) {
    case RequestKind::prepare: answer = restore(store, change); break;
    case RequestKind::put:
      answer = change.writes.empty() ? Answer::refused : restore(store, change);
      if (answer == Answer::done) (void)store.commit(change.timestamp);
      break;
    case RequestKind::commit: store.restore_commit(change.timestamp, change.servers); break;
    case RequestKind::abort: store.abort(change.timestamp); break;
    case RequestKind::use:  // it only tells what is settled, or where a transaction is committed
      if (change.timestamp != Timestamp{}) store.note_everywhere(change.timestamp);
      break;
    default: answer = Answer::refused;
  }
  store.reclaim_at_once();
  return answer;
}

}  // namespace farside::kv
