#include "kv/journal/snapshot.h"

#include <limits>
#include <utility>
#include <vector>

#include "farside/base/error.h"

#include "kv/protocol/messages.h"
#include "kv/protocol/record.h"

namespace farside::kv {

namespace {

constexpr std::size_t kVersionsAtOnce = 64;
constexpr std::uint64_t kBytesAtOnce = std::uint64_t{256} << 10U;

void append(JournalFile& file, const Request& request) {
  file.append(JournalEntryHead::Kind::request, request.encode());
}

/// Adds the contents of the record, as part of the request that wrote it.
void add(Request& request, std::span<const std::byte> bytes) {
  const auto record = read_record(bytes, 0, {});
  if (!record) throw Error({"write", "a snapshot", "a record in memory is damaged", "start the server again"});
  request.timestamp = record->head.timestamp;
  request.siblings = {record->head.siblings_kind, record->siblings};
  request.about = static_cast<std::uint32_t>(mark_bits(record->head.mark) & ~RecordHead::kNotNewest);
  request.writes.push_back({record->key, record->value, record->head.expires_ns, record->erased()});
}

}  // namespace

Snapshot::Snapshot(JournalFile file, const Store& store, std::uint64_t last)
    : file_(std::move(file)), store_(store), last_(last) {
  add_prepared();
  add_ended();
}

void Snapshot::add_prepared() {
  for (const Doubtful& each : store_.doubtful({std::numeric_limits<std::int64_t>::max()})) {
    Request request;
    request.kind = RequestKind::prepare;
    request.timestamp = each.timestamp;
    request.servers = each.servers;
    const auto versions = store_.prepared(each.timestamp);
    for (const PreparedVersion& version : versions) {
      add(request, version.record);
      if (version.is_conditional) request.writes.back().expected.emplace();  // that it was met is known
    }
    append(file_, request);
    for (const Write& write : request.writes) add_newer(write.key, each.timestamp);
  }
}

// When its turn comes the key may be gone, if that erased it: what is prepared would bring it back.
void Snapshot::add_newer(std::string_view key, const Timestamp& prepared) {
  const auto newest = store_.newest(key);
  if (newest && newest->timestamp > prepared) add_version(store_.record(*newest));
}

void Snapshot::add_version(std::span<const std::byte> record) {
  Request request;
  request.kind = RequestKind::put;
  add(request, record);
  append(file_, request);
}

void Snapshot::add_ended() {
  for (const EndedTransactions& session : store_.ended()) {
    Request request;
    request.kind = RequestKind::use;
    request.session = session.session;
    request.settled = session.settled;
    append(file_, request);
    if (session.floor > session.settled) {
      request = {};
      request.kind = RequestKind::fate;
      request.timestamp = {session.floor, session.session};
      append(file_, request);
    }
    for (const EndedTransactions::Ended& ended : session.since) {
      request = {};
      request.kind = ended.is_committed ? RequestKind::commit : RequestKind::abort;
      request.timestamp = {ended.time, session.session};
      request.servers = ended.servers;
      append(file_, request);
    }
  }
}

bool Snapshot::step() {
  while (!is_written_ && file_.buffered_bytes() < kBytesAtOnce) {
    const Store::Walked walked = store_.walk(cursor_, kVersionsAtOnce);
    for (const auto& record : walked.records) add_version(record);
    cursor_ = walked.next;
    if (cursor_ == 0) end();
  }
  return file_.write();
}

// Only now is it known which keys were gone before their turn came.
void Snapshot::end() {
  const Store::Forgotten forgotten = store_.all_forgotten();
  const SnapshotEnd end{forgotten.keys, forgotten.sessions, last_};
  file_.append(JournalEntryHead::Kind::end, std::as_bytes(std::span(&end, 1)));
  is_written_ = true;
}

}  // namespace farside::kv
