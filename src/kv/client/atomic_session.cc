#include "kv/client/atomic_session.h"

#include "farside/base/error.h"

#include "kv/client/address_source.h"
#include "kv/client/cell_source.h"

namespace farside::kv {

namespace {

std::unique_ptr<VersionSource> make_source(const SessionSettings& settings, Channel& channel, ServerMemories servers,
                                           VersionSource& asking, const KvRules& rules) {
  switch (settings.way) {
    case ReadWay::ask: break;
    case ReadWay::addresses:
      return std::make_unique<AddressSource>(channel, servers, asking, settings.cached_keys, rules);
    case ReadWay::cells: return std::make_unique<CellSource>(channel, servers, asking, settings.cached_keys, rules);
  }
  return nullptr;
}

std::optional<HomedSource> make_homed(Fabric& fabric, Homes* homes, VersionSource* reading) {
  if (homes == nullptr || reading == nullptr) return std::nullopt;
  return std::optional<HomedSource>(std::in_place, fabric, *homes, *reading);
}

}  // namespace

AtomicSession::AtomicSession(Fabric& fabric, Channel& channel, Requests& requests, ServerMemories servers,
                             const SessionSettings& settings, const KvRules& rules, Homes* homes)
    : clock_(fabric, rules.timestamps_are_unique ? settings.session : 0, settings.wall),
      caller_{settings.session, 0},
      asking_(requests, caller_),
      reading_(make_source(settings, channel, servers, asking_, rules)),
      homed_(make_homed(fabric, homes, reading_.get())),
      reader_(fabric, source(), requests, caller_, settings.grace, rules),
      writer_(fabric, requests, clock_, caller_, settings.grace, settings.siblings, rules),
      scanner_(requests, caller_),
      pulse_(fabric, requests, caller_) {}

VersionSource& AtomicSession::source() {
  if (homed_) return *homed_;
  return reading_ != nullptr ? *reading_ : asking_;
}

template <class Call>
auto AtomicSession::whole(Call call) {
  if (is_torn_) {
    throw Error({"use", "a session of the key-value store", "an exception has cut an earlier call of it short",
                 "open another session"});
  }
  is_torn_ = true;
  try {
    auto result = call();
    is_torn_ = false;
    return result;
  } catch (const UsageError&) {  // before a message was sent
    is_torn_ = false;
    throw;
  }
}

Result<std::span<const Got>> AtomicSession::get_all(std::span<const std::string_view> keys, Deadline deadline) {
  return whole([&] { return find_all(keys, deadline); });
}

PutOutcome AtomicSession::put_all(std::span<const Write> writes, Deadline deadline) {
  return whole([&] { return writer_.put_all(writes, deadline); });
}

void AtomicSession::put_each(std::span<IndependentPut> puts, Deadline deadline, const PutEnded& ended) {
  whole([&] {
    writer_.put_each(puts, deadline, ended);
    return true;
  });
}

Result<Scanned> AtomicSession::scan(std::uint64_t cursor, std::string_view prefix, std::size_t about,
                                    Deadline deadline) {
  return whole([&] { return scanner_.scan(cursor, prefix, about, deadline); });
}

Result<std::vector<MemoryUse>> AtomicSession::use(Deadline deadline) {
  return whole([&] { return scanner_.use(deadline); });
}

std::vector<bool> AtomicSession::hear() {
  return whole([&] { return pulse_.hear(); });
}

Result<std::span<const Got>> AtomicSession::find_all(std::span<const std::string_view> keys, Deadline deadline) {
  got_.clear();
  const auto found = reader_.get_all(keys, deadline);
  if (!found.done()) return {found.status, {}};
  const std::uint64_t now_ns = clock_.wall_ns();  // one moment for all keys
  for (const Search& search : found.value) {
    clock_.observe(search.timestamp);
    const bool present = search.found && !search.record.erased() &&
                         (search.record.head.expires_ns == 0 || search.record.head.expires_ns > now_ns);
    if (present) {
      got_.push_back({true, search.timestamp, search.record.value, search.record.head.expires_ns});
    } else {
      got_.push_back({false, search.timestamp, {}, 0});
    }
  }
  return {Outcome::done, got_};
}

}  // namespace farside::kv
