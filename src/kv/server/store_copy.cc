#include "kv/server/store_copy.h"

#include <limits>
#include <vector>

#include "farside/base/error.h"

#include "kv/protocol/record.h"

namespace farside::kv {

namespace {

/// Adds the contents of the record, as part of the request that wrote it.
void add(Request& request, std::span<const std::byte> bytes) {
  const auto record = read_record(bytes, 0, {});
  if (!record) throw Error({"copy", "a store", "a record in memory is damaged", "start the server again"});
  request.timestamp = record->head.timestamp;
  request.siblings = {record->head.siblings_kind, record->siblings};
  request.about = static_cast<std::uint32_t>(mark_bits(record->head.mark) & ~RecordHead::kNotNewest);
  request.writes.push_back({record->key, record->value, record->head.expires_ns, record->erased()});
}

}  // namespace

void StoreCopy::begin() {
  const std::vector<KeptVersion> newer = add_prepared();
  add_ended();
  for (const KeptVersion& version : newer) add_version(version);
}

// Returns what is committed above what is prepared. When its turn comes the key may be gone, if that erased it: what is
// prepared would bring it back.
std::vector<KeptVersion> StoreCopy::add_prepared() {
  std::vector<KeptVersion> newer;
  for (const UnresolvedTransaction& each : store_.undecided({std::numeric_limits<std::int64_t>::max()})) {
    Request request;
    request.kind = RequestKind::prepare;
    request.timestamp = each.timestamp;
    request.servers = each.servers;
    const auto versions = store_.prepared(each.timestamp);
    std::vector<TakenPlace> places;
    for (const KeptVersion& version : versions) {
      add(request, version.record);
      if (version.is_conditional) request.writes.back().expected.emplace();  // that it was met is known
      places.push_back(version.place);
    }
    take_(Part::change, request, places);
    for (const Write& write : request.writes) {
      const auto newest = store_.newest(write.key);
      if (newest && newest->timestamp > each.timestamp) newer.push_back(store_.newest_kept(write.key).value());
    }
  }
  return newer;
}

void StoreCopy::add_version(const KeptVersion& version) {
  Request request;
  request.kind = RequestKind::put;
  add(request, version.record);
  take_(Part::version, request, {&version.place, 1});
}

void StoreCopy::add_ended() {
  for (const EndedTransactions& session : store_.ended()) {
    Request request;
    request.kind = RequestKind::use;
    request.session = session.session;
    request.settled = session.settled;
    take_(Part::change, request, {});
    if (session.floor > session.settled) {
      request = {};
      request.kind = RequestKind::fate;
      request.timestamp = {session.floor, session.session};
      take_(Part::change, request, {});
    }
    for (const EndedTransactions::Ended& ended : session.since) {
      request = {};
      request.kind = ended.is_committed ? RequestKind::commit : RequestKind::abort;
      request.timestamp = {ended.time, session.session};
      request.servers = ended.servers;
      take_(Part::change, request, {});
    }
  }
}

bool StoreCopy::go_on(std::size_t about) {
  const Store::Walked walked = store_.walk(cursor_, about);
  for (const KeptVersion& version : walked.versions) add_version(version);
  cursor_ = walked.next;
  places_ = walked.of;
  return cursor_ != 0;
}

std::uint16_t StoreCopy::permille() const { return static_cast<std::uint16_t>(cursor_ * 1000 / places_); }

}  // namespace farside::kv
