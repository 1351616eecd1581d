#include "kv/journal/snapshot.h"

#include <utility>

#include "kv/protocol/messages.h"

namespace farside::kv {

namespace {

constexpr std::size_t kVersionsAtOnce = 64;
constexpr std::uint64_t kBytesAtOnce = std::uint64_t{256} << 10U;

}  // namespace

Snapshot::Snapshot(JournalFile file, const Store& store, std::uint64_t last)
    : file_(std::move(file)),
      store_(store),
      last_(last),
      copy_(store, [this](StoreCopy::Part, const Request& request, std::span<const TakenPlace>) {
        file_.append(JournalEntryHead::Kind::request, request.encode());
      }) {
  copy_.begin();
}

bool Snapshot::step() {
  while (!is_written_ && file_.buffered_bytes() < kBytesAtOnce) {
    if (!copy_.go_on(kVersionsAtOnce)) end();
  }
  return file_.write();
}

void Snapshot::end() {
  const Store::Forgotten forgotten = store_.all_forgotten();
  const SnapshotEnd end{forgotten.keys, forgotten.sessions, last_};
  file_.append(JournalEntryHead::Kind::end, std::as_bytes(std::span(&end, 1)));
  is_written_ = true;
}

}  // namespace farside::kv
