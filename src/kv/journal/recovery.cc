#include "kv/journal/recovery.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "farside/base/error.h"
#include "farside/base/log.h"
#include "farside/base/units.h"

#include "kv/protocol/messages.h"
#include "kv/protocol/timestamp.h"
#include "kv/server/replay.h"

namespace farside::kv {

namespace {

constexpr std::uint64_t kFirstLog = 1;

class Recovery {
 public:
  Recovery(const JournalDirectory& directory, const Partition& partition, Store& store,
           const RecoveryProgress& progress)
      : directory_(directory), partition_(partition), store_(store), progress_(progress) {}

  /// Number of the first log that counts.
  std::uint64_t load_snapshot();
  JournalFile replay_logs(std::uint64_t first);
  /// Commits what is prepared here and at no other server: no other server need be asked.
  void commit_what_is_alone(JournalFile& log);

 private:
  /// The end of one log, and how much of it was cut off.
  struct End {
    JournalFileId log;
    std::uint64_t offset = 0;
    std::uint64_t cut_bytes = 0;
  };

  void remove_before(std::uint64_t number) const;
  End replay(const JournalFileId& log);
  [[nodiscard]] JournalFile go_on_with(const End& end) const;
  JournalFile begin(std::uint64_t number) const;
  void load(const JournalReader& reader, const JournalEntry& entry);
  void load_version(const JournalReader& reader, const JournalEntry& entry, const Request& version);
  void forget(const JournalReader& reader, const ForgottenState& forgotten);
  void repeat(const JournalReader& reader, const JournalEntry& entry);
  [[nodiscard]] static Error nonsense(const JournalReader& reader, const JournalEntry& entry);
  [[nodiscard]] static Request request_of(const JournalReader& reader, const JournalEntry& entry);
  void with_room(const std::function<Answer()>& restore);
  void look_ahead();
  void note_read(const JournalEntry& entry);

  const JournalDirectory& directory_;
  const Partition partition_;
  Store& store_;
  std::uint64_t first_log_ = kFirstLog;  // that counts
  std::uint64_t last_ = 0;               // entry of the log
  bool has_looked_ahead_ = false;
  const RecoveryProgress& progress_;
  std::uint64_t read_bytes_ = 0;
};

std::uint64_t Recovery::load_snapshot() {
  const auto snapshots = directory_.numbers_of(JournalFileKind::snapshot);
  const std::uint64_t number = snapshots.empty() ? kFirstLog : snapshots.back();
  if (snapshots.empty()) return number;
  first_log_ = number;

  const JournalFileId file{JournalFileKind::snapshot, number};
  JournalReader reader(directory_.path_of(file), file, partition_);
  SnapshotEnd end{};
  for (std::uint64_t sequence = 1;; ++sequence) {
    const auto entry = reader.next(sequence);
    if (!entry) throw reader.damage("byte " + std::to_string(reader.offset()) + " is not as it was written");
    note_read(*entry);
    if (entry->head.kind == JournalEntryHead::Kind::request) {
      load(reader, *entry);
      continue;
    }
    if (entry->body.size() != sizeof end || !reader.has_ended()) throw reader.damage("it does not end where it should");
    std::memcpy(&end, entry->body.data(), sizeof end);
    break;
  }
  forget(reader, {end.forgotten_keys, end.forgotten_sessions});
  last_ = end.last;
  remove_before(number);  // which it stands in the place of
  return number;
}

void Recovery::remove_before(std::uint64_t number) const {
  for (const JournalFileKind kind : {JournalFileKind::snapshot, JournalFileKind::log}) {
    for (const std::uint64_t old : directory_.numbers_of(kind)) {
      if (old < number) directory_.remove({kind, old});
    }
  }
}

JournalFile Recovery::replay_logs(std::uint64_t first) {
  const auto logs = directory_.numbers_of(JournalFileKind::log);
  if (logs.empty() && first == kFirstLog) return begin(first);
  End end;
  const std::uint64_t newest = logs.empty() ? first : std::max(first, logs.back());
  for (std::uint64_t number = first; number <= newest; ++number) {
    const std::uint64_t before = last_;
    const End next = replay({JournalFileKind::log, number});
    if (end.cut_bytes == 0) {
      end = next;
    } else if (last_ == before && next.cut_bytes == 0) {
      directory_.remove(next.log);  // made, and never used
    } else {
      const JournalReader reader(directory_.path_of(end.log), end.log, partition_);
      throw reader.damage("byte " + std::to_string(end.offset) + " is not as it was written");
    }
  }
  return go_on_with(end);
}

// Entries that a crash cut off were not reported as kept to any client: no later entry says that they were.
Recovery::End Recovery::replay(const JournalFileId& log) {
  JournalReader reader(directory_.path_of(log), log, partition_);
  while (const auto entry = reader.next(last_ + 1)) {
    note_read(*entry);
    repeat(reader, *entry);
    ++last_;
  }
  if (!reader.has_ended() && reader.has_proof_of(last_ + 1)) {
    throw reader.damage("byte " + std::to_string(reader.offset()) + " is not as it was written");
  }
  return {log, reader.offset(), reader.bytes() - reader.offset()};
}

JournalFile Recovery::go_on_with(const End& end) const {
  const std::string path = directory_.path_of(end.log);
  Fd file(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  if (!file) throw errno_error("go on with", path);
  if (end.cut_bytes != 0) {
    log::warn("the last " + format_bytes(end.cut_bytes) + " of " + path + " were not written to their end; cut off");
    if (::ftruncate(file.get(), static_cast<off_t>(end.offset)) != 0) throw errno_error("shorten", path);
  }
  if (::fsync(file.get()) != 0) throw errno_error("write", path);
  return {std::move(file), end.log, end.offset, last_};
}

JournalFile Recovery::begin(std::uint64_t number) const {
  const JournalFileId id{JournalFileKind::log, number};
  Fd file = directory_.make_log(id, partition_);
  if (!file) throw errno_error("write", directory_.path_of(id));
  return {std::move(file), id, sizeof(JournalFileHead), last_};
}

// A reader may have seen it committed, which was not kept yet.
void Recovery::commit_what_is_alone(JournalFile& log) {
  const auto is_self = [this](ServerNumber each) { return each == partition_.server; };
  for (const UnresolvedTransaction& each : store_.undecided({std::numeric_limits<std::int64_t>::max()})) {
    if (!std::ranges::all_of(each.servers, is_self)) continue;
    (void)store_.commit(each.timestamp);
    Request request;
    request.kind = RequestKind::commit;
    request.timestamp = each.timestamp;
    log.append(JournalEntryHead::Kind::request, request.encode());
  }
}

// ---- Entries

Request Recovery::request_of(const JournalReader& reader, const JournalEntry& entry) {
  auto request = Request::decode(entry.body);
  if (!request) throw nonsense(reader, entry);
  return std::move(*request);
}

Error Recovery::nonsense(const JournalReader& reader, const JournalEntry& entry) {
  return reader.damage("entry " + std::to_string(entry.head.sequence) + " makes no sense");
}

// In a snapshot a put is one version of a transaction.
void Recovery::load(const JournalReader& reader, const JournalEntry& entry) {
  const Request request = request_of(reader, entry);
  if (request.kind != RequestKind::put) return repeat(reader, entry);
  load_version(reader, entry, request);
}

void Recovery::load_version(const JournalReader& reader, const JournalEntry& entry, const Request& version) {
  if (version.kind != RequestKind::put || version.writes.size() != 1) throw nonsense(reader, entry);
  with_room([&] {
    return store_.restore_version(version.timestamp, version.siblings, version.writes.front(), version.about);
  });
  store_.reclaim_at_once();
}

void Recovery::forget(const JournalReader& reader, const ForgottenState& forgotten) {
  if (forgotten.sessions > kLatestTime) throw reader.damage("it forgets sessions of a time that cannot be");
  store_.forget({forgotten.keys, forgotten.sessions});
}

void Recovery::repeat(const JournalReader& reader, const JournalEntry& entry) {
  if (entry.head.kind == JournalEntryHead::Kind::forgotten) {
    ForgottenState forgotten{};
    if (entry.body.size() != sizeof forgotten) throw nonsense(reader, entry);
    std::memcpy(&forgotten, entry.body.data(), sizeof forgotten);
    return forget(reader, forgotten);
  }
  const Request request = request_of(reader, entry);
  if (entry.head.kind == JournalEntryHead::Kind::version) return load_version(reader, entry, request);
  if (entry.head.kind != JournalEntryHead::Kind::request) throw nonsense(reader, entry);
  with_room([&] {
    const Answer answer = kv::replay(store_, request);
    if (answer == Answer::refused) throw nonsense(reader, entry);
    return answer;
  });
}

void Recovery::note_read(const JournalEntry& entry) {
  const std::uint64_t before = read_bytes_;
  read_bytes_ += entry.body.size();
  if (progress_ && before / kRecoveryStep != read_bytes_ / kRecoveryStep) progress_(read_bytes_);
}

// ---- Room

void Recovery::with_room(const std::function<Answer()>& restore) {
  Answer answer = restore();
  if (answer == Answer::full && !std::exchange(has_looked_ahead_, true)) {
    look_ahead();
    answer = restore();
  }
  if (answer != Answer::full) return;
  throw Error({"recover", "server " + std::to_string(partition_.server), "its memory is too small for its journal",
               "give it as much as it had, or more"});
}

// A snapshot is not of a single moment: versions that were walked early may have been overwritten when the rest was
// walked. So there may be more in it than there ever was at once, and the logs say what of it is not needed.
void Recovery::look_ahead() {
  std::map<KeyId, Timestamp> last;
  const auto note = [&last](const KeyId& key, const Timestamp& timestamp) {
    Timestamp& known = last[key];
    known = std::max(known, timestamp);
  };
  std::map<Timestamp, std::vector<KeyId>> prepared;
  for (const std::uint64_t number : directory_.numbers_of(JournalFileKind::log)) {
    if (number < first_log_) continue;
    const JournalFileId log{JournalFileKind::log, number};
    JournalReader reader(directory_.path_of(log), log, partition_);
    while (const auto entry = reader.next()) {
      note_read(*entry);
      if (entry->head.kind == JournalEntryHead::Kind::forgotten) continue;
      const Request request = request_of(reader, *entry);
      for (const Write& write : request.writes) prepared[request.timestamp].push_back(key_id(write.key));
      if (request.kind == RequestKind::put || request.kind == RequestKind::commit) {
        for (const KeyId& key : prepared[request.timestamp]) note(key, request.timestamp);
      }
      if (request.kind != RequestKind::prepare) prepared.erase(request.timestamp);
    }
  }
  store_.expect(std::move(last));
}

}  // namespace

JournalFile recover(const JournalDirectory& directory, const Partition& partition, Store& store,
                    const RecoveryProgress& progress) {
  Recovery recovery(directory, partition, store, progress);
  JournalFile log = recovery.replay_logs(recovery.load_snapshot());
  store.expect({});  // nothing more
  recovery.commit_what_is_alone(log);
  return log;
}

}  // namespace farside::kv
