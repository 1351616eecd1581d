#include "kv/protocol/store.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "farside/base/error.h"

#include "kv/protocol/cells.h"
#include "kv/protocol/placement.h"
#include "kv/protocol/reclaimer.h"
#include "kv/protocol/record.h"
#include "kv/protocol/transactions.h"

namespace farside::kv {

namespace {

constexpr std::uint64_t kLeastBytes = 64U << 10U;
/// A word of the index for so much memory at least: no key takes less.
constexpr std::uint64_t kBytesPerWord = 384;
constexpr std::size_t kReclaimedAtOnce = 64;
// A hundred thousand keys in a second, and no more than a hundredth of its time.
constexpr std::uint64_t kBucketsAtOnce = 16;
constexpr Duration kBetweenLooks = std::chrono::milliseconds(1);

MemoryHead lay_out(const Region& memory, std::uint64_t bytes) {
  if (bytes < kLeastBytes || bytes > memory.bytes()) {
    throw UsageError({"keep keys in", memory.name(),
                      std::to_string(bytes) + " bytes are to be used of its " + std::to_string(memory.bytes()),
                      "give it 64 KiB or more"});
  }
  MemoryHead head{};
  head.magic = MemoryHead::kMagic;
  head.bytes = bytes;
  head.index_offset = sizeof head;
  head.index_buckets = std::bit_ceil(bytes / kBytesPerWord / IndexWord::kWordsInBucket);
  head.forgotten_seal = head.seal_of_forgotten();
  return head;
}

}  // namespace

struct Store::State {
  State(const Fabric& fabric_, Channel& channel_, const Region& region_, const StoreSettings& settings,
        const KvRules& rules_)
      : fabric(fabric_),
        channel(channel_),
        region(region_),
        rules(rules_),
        ahead(settings.ahead),
        head(lay_out(region, settings.bytes)),
        index(region, head.index_offset, head.index_buckets),
        heap(head.index_offset + head.index_buckets * sizeof(IndexBucketWords), head.bytes),
        cells(region, channel, rules, heap, index),
        placement(cells, index, heap, rules),
        reclaimer(fabric, channel, region, cells, rules, rules.keeps_superseded ? settings.grace : Duration::zero()) {}

  /// Whether the transaction may be prepared, but for want of room.
  [[nodiscard]] Answered judge(const Timestamp& transaction, const std::vector<PlacedWrite>& writes);
  [[nodiscard]] bool is_as_expected(const PlacedWrite& placed);
  [[nodiscard]] bool is_absent(const PlacedWrite& placed) const;
  void add(const Prepare& part, const std::vector<PlacedWrite>& writes);
  void write(const Prepare& part, const PlacedWrite& placed);
  /// Of a version that is prepared. The key's newest.
  Timestamp commit(const KeyId& key, const Timestamp& transaction, std::uint64_t settled);
  void drop(KeyVersions& history, const Timestamp& transaction);
  void say_visible() const {
    if (rules.visible_before_answering) channel.local_fence();
  }
  void settle(const KeyId& key, const Timestamp& transaction, std::uint64_t bits);
  /// Of what is not prepared and will not be.
  Answered refuse(const Timestamp& transaction, const Answered& answered) {
    if (rules.bars_before_saying_no) transactions.bar(transaction);
    return answered;
  }
  [[nodiscard]] std::uint64_t wall_ns() const {
    return static_cast<std::uint64_t>(fabric.now().nanoseconds + ahead.count());
  }
  [[nodiscard]] bool is_expired(const RecordHead& record) const {
    return record.expires_ns != 0 && record.expires_ns <= wall_ns();
  }
  void look_for_expired();
  void expire(const KeyId& key, const IndexWord& cell);
  [[nodiscard]] RecordHead head_of(const FoundVersion& version) const {
    RecordHead record;
    region.copy_out(version.place.offset, std::as_writable_bytes(std::span(&record, 1)));
    return record;
  }
  [[nodiscard]] std::string key_of(const FoundVersion& version, const RecordHead& record) const;

  const Fabric& fabric;
  Channel& channel;
  const Region& region;
  const KvRules rules;
  const Duration ahead;
  std::uint64_t next_generation = 1;
  const MemoryHead head;  // as it was in the beginning
  Index index;
  Heap heap;
  Cells cells;
  Placement placement;
  Reclaimer reclaimer;
  Transactions transactions;
  Time next_look_for_expired{};
  std::uint64_t looked_at_bucket = 0;
};

Store::Store(const Fabric& fabric, Channel& channel, const Region& memory, const StoreSettings& settings,
             const KvRules& rules)
    : state_(std::make_unique<State>(fabric, channel, memory, settings, rules)) {
  memory.copy_in(0, std::as_bytes(std::span(&state_->head, 1)));
  channel.local_fence();
}

Store::~Store() = default;

// Transactions.

Answered Store::prepare(const Prepare& part) {
  using Standing = Transactions::Standing;
  State& store = *state_;
  const Standing standing = store.transactions.standing(part.timestamp);
  if (standing == Standing::barred) return {Answer::barred, {store.transactions.forgotten(), 0}};
  if (standing != Standing::unknown) return {Answer::done, {}};  // asked twice

  std::vector<PlacedWrite> writes;
  Answered judged{};
  for (;;) {
    writes = store.placement.look(part);
    judged = store.judge(part.timestamp, writes);
    if (judged.answer != Answer::done) return store.refuse(part.timestamp, judged);
    if (store.placement.take(writes)) break;
    if (reclaim(kReclaimedAtOnce) == 0) return store.refuse(part.timestamp, {Answer::full, judged.newest});
  }
  store.add(part, writes);
  return judged;
}

Answered Store::State::judge(const Timestamp& transaction, const std::vector<PlacedWrite>& writes) {
  Answered judged{Answer::done, {}};
  bool are_as_expected = true;
  for (const PlacedWrite& placed : writes) {
    judged.newest = std::max(judged.newest, placed.newest ? placed.newest->timestamp : reclaimer.forgotten());
    const KeyVersions* noted = cells.opened(placed.key);
    if (noted != nullptr && rules.keeps_conditions) judged.newest = std::max(judged.newest, noted->last_conditional());
    are_as_expected = are_as_expected && is_as_expected(placed);
  }
  if (!are_as_expected) {
    judged.answer = Answer::differs;
  } else if (rules.refuses_what_is_behind && judged.newest > transaction) {
    judged.answer = Answer::behind;
  }
  return judged;
}

// The first who prepares has it: whoever is told that it differs reads again, and nobody waits for anybody.
bool Store::State::is_as_expected(const PlacedWrite& placed) {
  const auto& expected = placed.write->expected;
  if (!expected) return true;
  const Timestamp newest = placed.newest ? placed.newest->timestamp : Timestamp{};
  const KeyVersions* noted = cells.opened(placed.key);
  const bool is_alone = noted == nullptr || noted->last() <= newest;
  if (!is_alone && rules.conditions_heed_the_prepared) return false;
  return *expected == newest || (*expected == Timestamp{} && is_absent(placed));
}

bool Store::State::is_absent(const PlacedWrite& placed) const {
  if (!placed.newest) return true;
  const RecordHead record = head_of(*placed.newest);
  return is_expired(record) || (record.flags & RecordHead::kErased) != 0;
}

void Store::State::add(const Prepare& part, const std::vector<PlacedWrite>& writes) {
  PreparedHere prepared{fabric.now(), {part.servers.begin(), part.servers.end()}, {}};
  for (const PlacedWrite& placed : writes) {
    write(part, placed);
    prepared.keys.push_back(placed.key);
  }
  transactions.add(part.timestamp, std::move(prepared));
  say_visible();
}

void Store::State::write(const Prepare& part, const PlacedWrite& placed) {
  const Write& write = *placed.write;
  KeyVersions& history =
      placed.is_new ? cells.create(placed.key, *placed.cell, next_generation++) : cells.open(placed.key, *placed.cell);
  RecordHead record{};
  record.generation = placed.overwrites ? placed.newest->generation : next_generation++;
  record.timestamp = part.timestamp;
  record.key = placed.key;
  record.expires_ns = write.expires_ns;
  record.value_bytes = static_cast<std::uint32_t>(write.value.size());
  record.key_bytes = static_cast<std::uint32_t>(write.key.size());
  record.siblings_kind = part.siblings.kind;
  record.flags = write.erase ? RecordHead::kErased : 0;
  record.siblings_bytes = static_cast<std::uint32_t>(part.siblings.bytes.size());
  const RecordPlace place{VersionState::prepared, placed.record_bytes, placed.record};
  cells.add(history, {part.timestamp, record.generation, place, write.erase, write.expected.has_value()},
            make_record(record, part.siblings.bytes, write.key, write.value));
  cells.mark_newest(history);
  cells.show(history);
  if (placed.is_new) index.insert(placed.key, *placed.cell);
}

Answered Store::commit(const Timestamp& transaction) {
  using Standing = Transactions::Standing;
  State& store = *state_;
  switch (store.transactions.standing(transaction)) {
    case Standing::unknown: return {Answer::unknown, {}};
    case Standing::barred: return {Answer::barred, {}};
    case Standing::committed: return {Answer::done, transaction};
    case Standing::prepared: break;
  }
  Timestamp newest = transaction;
  const std::vector<KeyId> keys = store.transactions.commit(transaction, store.fabric.now());
  const std::uint64_t settled = store.transactions.settled_bits(transaction);
  for (const KeyId& key : keys) newest = std::max(newest, store.commit(key, transaction, settled));
  if (!store.rules.keeps_superseded) reclaim(std::numeric_limits<std::size_t>::max());
  store.say_visible();
  return {Answer::done, newest};
}

Timestamp Store::State::commit(const KeyId& key, const Timestamp& transaction, std::uint64_t settled) {
  KeyVersions& history = *cells.opened(key);
  Version* const before = cells.commit(history, transaction);
  Version& version = *history.find(transaction);
  cells.mark_settled(history, version, settled);
  if (rules.marks_all_versions) cells.mark_newest(history);
  const Timestamp newest = history.newest()->timestamp;
  reclaimer.schedule(history, version);
  if (before != nullptr) reclaimer.schedule(history, *before);
  cells.close(history);
  return newest;
}

void Store::abort(const Timestamp& transaction) {
  using Standing = Transactions::Standing;
  State& store = *state_;
  if (store.transactions.standing(transaction) == Standing::committed) return;
  for (const KeyId& key : store.transactions.bar(transaction)) {
    store.drop(*store.cells.opened(key), transaction);
  }
  store.say_visible();
}

void Store::State::drop(KeyVersions& history, const Timestamp& transaction) {
  cells.drop(history, transaction);
  if (history.versions.empty()) return cells.remove(history);
  if (rules.marks_all_versions) cells.mark_newest(history);
  cells.close(history);
}

Answered Store::put(const Timestamp& timestamp, const Write& write) {
  const Answered prepared = prepare({timestamp, {SiblingsKind::list, {}}, {}, {&write, 1}});
  return prepared.answer == Answer::done ? commit(timestamp) : prepared;
}

void Store::settle(const Timestamp& up_to) {
  const auto settled = state_->transactions.settle(up_to);
  if (settled.empty()) return;
  for (const Transactions::Settled& transaction : settled) {
    constexpr std::uint64_t kAll = RecordHead::kEverywhere | RecordHead::kSettled;
    for (const KeyId& key : transaction.keys) state_->settle(key, transaction.timestamp, kAll);
  }
  state_->say_visible();
}

void Store::note_everywhere(const Timestamp& transaction) {
  for (const KeyId& key : state_->transactions.note_everywhere(transaction)) {
    state_->settle(key, transaction, RecordHead::kEverywhere);
  }
  state_->say_visible();
}

void Store::State::settle(const KeyId& key, const Timestamp& transaction, std::uint64_t bits) {
  const auto cell = index.find(key);
  if (!cell) return;
  KeyVersions& history = cells.open(key, *cell);
  if (Version* version = history.find(transaction)) {
    cells.mark_settled(history, *version, bits);
    reclaimer.schedule(history, *version);
  }
  cells.close(history);
}

// Termination.

Store::Fate Store::fate_or_bar(const Timestamp& transaction) {
  using Standing = Transactions::Standing;
  switch (state_->transactions.standing(transaction)) {
    case Standing::prepared: return Fate::prepared;
    case Standing::committed: return Fate::committed;
    case Standing::barred: return Fate::aborted;
    case Standing::unknown: break;
  }
  if (state_->rules.bars_before_saying_no) state_->transactions.bar(transaction);
  return Fate::aborted;
}

std::vector<Doubtful> Store::doubtful(Time before) const { return state_->transactions.doubtful(before); }

std::vector<Doubtful> Store::unsettled(Time before) { return state_->transactions.unsettled(before); }

// Versions.

std::optional<FoundVersion> Store::newest(std::string_view key) const {
  const auto cell = state_->index.find(key_id(key));
  return cell ? state_->cells.newest(*cell) : std::nullopt;
}

std::optional<FoundVersion> Store::at(std::string_view key, const Timestamp& timestamp) const {
  const KeyId id = key_id(key);
  const auto cell = state_->index.find(id);
  return cell ? state_->cells.at(id, *cell, timestamp) : std::nullopt;
}

std::optional<FoundVersion> Store::among(std::string_view key, std::span<const Timestamp> candidates) const {
  const KeyId id = key_id(key);
  const auto cell = state_->index.find(id);
  if (!cell) return std::nullopt;
  std::optional<FoundVersion> highest;
  for (const Timestamp& candidate : candidates) {
    if (highest && candidate < highest->timestamp) continue;
    if (const auto found = state_->cells.at(id, *cell, candidate)) highest = found;
  }
  return highest ? highest : state_->cells.newest(*cell);
}

std::vector<std::byte> Store::record(const FoundVersion& version) const {
  std::vector<std::byte> bytes(version.place.bytes);
  state_->region.copy_out(version.place.offset, bytes);
  return bytes;
}

std::string Store::State::key_of(const FoundVersion& version, const RecordHead& record) const {
  std::string key(record.key_bytes, '\0');
  region.copy_out(version.place.offset + sizeof record + record.siblings_bytes, std::as_writable_bytes(std::span(key)));
  return key;
}

Scanned Store::scan(std::uint64_t cursor, std::string_view prefix, std::size_t about) const {
  constexpr std::uint64_t kMostBuckets = 8192;  // where there are few keys, so that others need not wait for long
  Scanned scanned{{}, cursor};
  const std::uint64_t end = std::min(state_->index.buckets(), std::min(cursor, state_->index.buckets()) + kMostBuckets);
  for (std::size_t seen = 0; scanned.next < end && seen < std::max<std::size_t>(about, 1);) {
    for (const std::uint64_t word : state_->index.bucket(scanned.next++)) {
      if (!Index::is_cell(word)) continue;
      ++seen;
      const auto version = state_->cells.newest(IndexWord::from_word(word));
      if (!version) continue;
      const RecordHead record = state_->head_of(*version);
      if ((record.flags & RecordHead::kErased) != 0 || state_->is_expired(record)) continue;
      std::string key = state_->key_of(*version, record);
      if (key.starts_with(prefix)) scanned.keys.push_back(std::move(key));
    }
  }
  if (scanned.next >= state_->index.buckets()) scanned.next = 0;
  return scanned;
}

std::size_t Store::reclaim(std::size_t most) {
  state_->look_for_expired();
  const std::size_t freed = state_->reclaimer.reclaim(most, state_->fabric.now());
  if (freed != 0) state_->say_visible();
  return freed;
}

// Of a few keys at a time, now and then, so that it costs little: their memory is what it is for.
void Store::State::look_for_expired() {
  const Time now = fabric.now();
  if (now < next_look_for_expired) return;
  next_look_for_expired = now + kBetweenLooks;
  for (std::uint64_t i = 0; i < kBucketsAtOnce; ++i) {
    looked_at_bucket = (looked_at_bucket + 1) & (index.buckets() - 1);
    for (const std::uint64_t word : index.bucket(looked_at_bucket)) {
      const IndexWord cell = IndexWord::from_word(word);
      const auto newest = Index::is_cell(word) ? cells.newest(cell) : std::nullopt;
      if (!newest) continue;
      const RecordHead record = head_of(*newest);
      if (is_expired(record)) expire(record.key, cell);
    }
  }
}

// From now on it is to the server as if erased.
void Store::State::expire(const KeyId& key, const IndexWord& cell) {
  KeyVersions& history = cells.open(key, cell);
  cells.expire(history);
  reclaimer.schedule(history, *history.newest());
}

MemoryUse Store::use() const {
  return {state_->cells.keys(), state_->cells.versions(), state_->heap.bytes_used(), state_->heap.bytes_total()};
}

Timestamp Store::forgotten() const { return state_->reclaimer.forgotten(); }

// What a journal keeps beside the changes.

std::vector<PreparedVersion> Store::prepared(const Timestamp& transaction) const {
  std::vector<PreparedVersion> versions;
  for (const KeyId& key : state_->transactions.keys_of(transaction)) {
    const Version& version = *state_->cells.opened(key)->find(transaction);
    versions.push_back({record({version.timestamp, version.generation, version.place}), version.conditional});
  }
  return versions;
}

Store::Walked Store::walk(std::uint64_t cursor, std::size_t about) const {
  Walked walked{{}, cursor};
  for (std::size_t seen = 0; walked.next < state_->index.buckets() && seen < about; ++seen) {
    for (const std::uint64_t word : state_->index.bucket(walked.next++)) {
      if (!Index::is_cell(word)) continue;
      ++seen;
      if (const auto version = state_->cells.newest(IndexWord::from_word(word))) {
        walked.records.push_back(record(*version));
      }
    }
  }
  if (walked.next >= state_->index.buckets()) walked.next = 0;
  return walked;
}

std::vector<EndedTransactions> Store::ended() const { return state_->transactions.ended(); }

// Recovery.

Answer Store::restore(const Prepare& part) {
  State& store = *state_;
  if (store.transactions.is_known(part.timestamp)) return Answer::done;
  for (const Write& write : part.writes) {  // a snapshot may have some of them, committed: they will be again
    const KeyId key = key_id(write.key);
    const auto cell = store.index.find(key);
    if (!cell || !store.cells.at(key, *cell, part.timestamp)) continue;
    store.drop(store.cells.open(key, *cell), part.timestamp);
  }
  std::vector<PlacedWrite> writes = store.placement.look(part);
  if (!store.placement.take(writes)) return Answer::full;
  store.add(part, writes);
  return Answer::done;
}

void Store::restore_commit(const Timestamp& transaction, std::span<const ServerNumber> servers) {
  Transactions& transactions = state_->transactions;
  if (!transactions.is_known(transaction)) {
    transactions.add(transaction, {{}, {servers.begin(), servers.end()}, {}});
  }
  (void)commit(transaction);
}

Answer Store::restore_version(const Timestamp& timestamp, const Siblings& siblings, const Write& write,
                              std::uint64_t settled) {
  State& store = *state_;
  const Prepare part{timestamp, siblings, {}, {&write, 1}};
  std::vector<PlacedWrite> writes = store.placement.look(part);
  const PlacedWrite& placed = writes.front();
  if (placed.cell && store.cells.at(placed.key, *placed.cell, timestamp)) return Answer::done;  // it is prepared
  if (!store.placement.take(writes)) return Answer::full;
  store.write(part, placed);
  store.commit(placed.key, timestamp, settled | store.transactions.settled_bits(timestamp));
  store.transactions.note_key(timestamp, placed.key);
  return Answer::done;
}

Store::Forgotten Store::all_forgotten() const { return {forgotten(), state_->transactions.forgotten()}; }

void Store::forget(const Forgotten& forgotten) {
  state_->reclaimer.forget(forgotten.keys);
  state_->transactions.forget(forgotten.sessions);
}

void Store::reclaim_at_once() {
  (void)state_->reclaimer.reclaim(std::numeric_limits<std::size_t>::max(), {std::numeric_limits<std::int64_t>::max()});
}

}  // namespace farside::kv
