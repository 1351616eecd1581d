#include "kv/server/store.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "farside/base/error.h"

#include "base/assert.h"
#include "kv/server/store_state.h"

namespace farside::kv {

namespace {

constexpr std::uint64_t kLeastBytes = 64U << 10U;
/// A word of the index for so much memory at least: no key takes less.
constexpr std::uint64_t kBytesPerWord = 384;
constexpr std::size_t kReclaimedAtOnce = 64;
// For one request that finds no room: less than a millisecond.
constexpr std::uint64_t kWalkedForRoom = 16U << 10U;
constexpr std::size_t kExpiredForRoom = 128;

// Versions of many keys lie in memory that no cache may have. What is waited for is then the slowest, not each.
void fetch(std::span<const WrittenVersion> written) {
  for (const WrittenVersion& each : written) each.version.fetch();
  for (const WrittenVersion& each : written) each.version.fetch_key();
}

MemoryHead lay_out(const Region& memory, std::uint64_t bytes) {
  if (bytes < kLeastBytes || bytes > memory.bytes()) {
    throw UsageError({"keep keys in", memory.name(),
                      std::to_string(bytes) + " bytes are to be used of its " + std::to_string(memory.bytes()),
                      "give it 64 KiB or more"});
  }
  constexpr std::uint64_t kMaxBytes = RecordPlace::kGrain << RecordPlace::kOffsetBits;
  if (bytes > kMaxBytes) {
    throw UsageError({"keep keys in", memory.name(), std::to_string(bytes) + " bytes are more than a place can name",
                      "give each server at most 4 TiB, and the pool more nodes"});
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

Store::State::State(const Fabric& fabric_, Channel& channel_, const Region& region_, const StoreSettings& settings,
                    const KvRules& rules_)
    : fabric(fabric_),
      channel(channel_),
      region(region_),
      rules(rules_),
      wall(settings.wall),
      head(lay_out(region, settings.bytes)),
      index(region, head.index_offset, head.index_buckets),
      heap(head.index_offset + head.index_buckets * sizeof(IndexBucketWords), head.bytes),
      cells(region, rules, heap, index),
      placement(cells, index, heap, rules),
      reclaimer(fabric, channel, region, cells, rules, rules.keeps_superseded ? settings.grace : Duration::zero(),
                settings.superseded_bytes),
      expiries(head.index_buckets) {}

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

  const Answered placed = place(part);
  if (placed.answer == Answer::done) store.add(part);
  return placed;
}

bool Store::has(const Timestamp& transaction) const {
  using Standing = Transactions::Standing;
  const Standing standing = state_->transactions.standing(transaction);
  return standing == Standing::prepared || standing == Standing::committed;
}

Answered Store::place(const Prepare& part) {
  State& store = *state_;
  for (bool has_walked = false;;) {
    store.placement.look(part, store.placed);
    const Answered judged = store.judge(part.timestamp);
    if (judged.answer != Answer::done) return store.refuse(part.timestamp, judged);
    if (store.placement.take(store.placed)) return judged;
    if (reclaim(kReclaimedAtOnce) != 0) continue;
    // A write that only erases gives back more than it takes: it must not wait for what was erased just before.
    const bool erases = std::ranges::all_of(part.writes, &Write::erase);
    if (store.reclaimer.reclaim_early(kReclaimedAtOnce, store.fabric.now(), erases) != 0) continue;
    // Expired keys make room when their grace time is over: the sooner they are found, the fewer requests are refused.
    if (!std::exchange(has_walked, true) && store.find_expired(kWalkedForRoom, kExpiredForRoom) != 0) continue;
    return store.refuse(part.timestamp, {Answer::full, judged.newest});
  }
}

Answered Store::State::judge(const Timestamp& transaction) const {
  Answered judged{Answer::done, {}};
  bool are_as_expected = true;
  for (const PlacedWrite& each : placed) {
    judged.newest = std::max(judged.newest, each.newest ? each.newest->timestamp : reclaimer.forgotten());
    const KeyVersions* const noted = each.noted;
    if (noted != nullptr && rules.keeps_conditions) judged.newest = std::max(judged.newest, noted->last_conditional());
    are_as_expected = are_as_expected && is_as_expected(each);
  }
  if (!are_as_expected) {
    judged.answer = Answer::differs;
  } else if (rules.refuses_what_is_behind && judged.newest > transaction) {
    judged.answer = Answer::behind;
  }
  return judged;
}

// The first to prepare has it: a session that is told `differs` reads again, and no session waits for another.
bool Store::State::is_as_expected(const PlacedWrite& write) const {
  const auto& expected = write.write->expected;
  if (!expected) return true;
  const Timestamp newest = write.newest ? write.newest->timestamp : Timestamp{};
  const bool is_alone = write.noted == nullptr || write.noted->last() <= newest;
  if (!is_alone && rules.conditions_heed_the_prepared) return false;
  return *expected == newest || (*expected == Timestamp{} && is_absent(write));
}

bool Store::State::is_absent(const PlacedWrite& write) const {
  if (!write.newest) return true;
  const RecordHead record = head_of(*write.newest);
  return is_expired(record) || (record.flags & RecordHead::kErased) != 0;
}

void Store::State::add(const Prepare& part) {
  PreparedHere prepared{fabric.now(), {part.servers.begin(), part.servers.end()}, {}};
  prepared.written.reserve(placed.size());
  for (const PlacedWrite& each : placed) prepared.written.push_back({each.key, VersionRef(write(part, each))});
  channel.local_fence();
  for (std::size_t i = 0; i < placed.size(); ++i) show(prepared.written[i].version.get(), placed[i]);
  transactions.add(part.timestamp, std::move(prepared));
  say_visible();
}

Version& Store::State::write(const Prepare& part, const PlacedWrite& where) {
  assert_that(part.timestamp != Timestamp{}, "no version has the timestamp of a slot that is empty");
  const Write& write = *where.write;
  KeyVersions* history = where.noted;
  if (history == nullptr) {
    history =
        where.is_new ? &cells.create(where.key, *where.cell, next_generation++) : &cells.open(where.key, *where.cell);
  }
  RecordHead record{};
  record.generation = where.overwrites ? where.newest->generation : next_generation++;
  record.timestamp = part.timestamp;
  record.key = where.key;
  record.expires_ns = write.expires_ns;
  record.value_bytes = static_cast<std::uint32_t>(write.value.size());
  record.key_bytes = static_cast<std::uint32_t>(write.key.size());
  record.siblings_kind = part.siblings.kind;
  record.flags = write.erase ? RecordHead::kErased : 0;
  record.siblings_bytes = static_cast<std::uint32_t>(part.siblings.bytes.size());
  const RecordPlace place{VersionState::prepared, where.record_bytes, where.record};
  make_record(record, part.siblings.bytes, write.key, write.value, record_bytes);
  return cells.add(*history, {part.timestamp, record.generation, place, write.erase, write.expected.has_value()},
                   record_bytes);
}

void Store::State::show(Version& version, const PlacedWrite& write) {
  cells.mark_newest(*version.key);
  cells.show(version);
  if (write.is_new) index.insert(write.key, *write.cell);
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
  const std::vector<WrittenVersion> written = store.transactions.commit(transaction, store.fabric.now());
  const std::uint64_t settled = store.transactions.settled_bits(transaction);
  const bool is_one = written.size() == 1;
  fetch(written);
  for (const WrittenVersion& each : written) {
    newest = std::max(newest, store.commit(each.version.get(), is_one ? settled : 0));
  }
  // A mark says of its siblings that they are committed: a reader that finds it forgets them, and they can be seen by
  // then.
  if (!is_one && settled != 0) {
    store.channel.local_fence();
    for (const WrittenVersion& each : written) store.settle(each, transaction, settled);
  }
  store.reclaim_after(written.size());
  store.say_visible();
  return {Answer::done, newest};
}

void Store::State::reclaim_after(std::size_t committed) {
  const std::size_t most = rules.keeps_superseded ? 2 * committed : std::numeric_limits<std::size_t>::max();
  (void)reclaimer.reclaim(most, fabric.now());
}

Timestamp Store::State::commit(Version& version, std::uint64_t settled) {
  KeyVersions& history = *version.key;
  Version* const before = cells.commit(version);
  cells.mark_settled(version, settled);
  if (const std::uint64_t expires_ns = expires_ns_of(version); expires_ns != 0) {
    expiries.note(bucket_of(history.key, index.buckets()), expires_ns);
  }
  if (rules.marks_all_versions) cells.mark_newest(history);
  const Timestamp newest = history.newest()->timestamp;
  reclaimer.schedule(version);
  if (before != nullptr) reclaimer.schedule(*before);
  cells.close(history);
  return newest;
}

void Store::abort(const Timestamp& transaction) {
  using Standing = Transactions::Standing;
  State& store = *state_;
  if (store.transactions.standing(transaction) == Standing::committed) return;
  for (const WrittenVersion& each : store.transactions.bar(transaction)) store.drop(each.version.get());
  store.say_visible();
}

void Store::State::drop(Version& version) {
  KeyVersions& history = *version.key;
  cells.drop(version);
  if (history.versions.empty()) return cells.remove(history);
  if (rules.marks_all_versions) cells.mark_newest(history);
  cells.close(history);
}

Answered Store::put(const Timestamp& timestamp, std::span<const Write> writes, const Siblings& siblings) {
  State& store = *state_;
  const Prepare part{timestamp, siblings, {}, writes};
  const bool is_new = store.transactions.standing(timestamp) == Transactions::Standing::unknown;
  if (writes.size() != 1 || !is_new) {
    const Answered prepared = prepare(part);
    return prepared.answer == Answer::done ? commit(timestamp) : prepared;
  }
  const Answered placed = place(part);
  if (placed.answer != Answer::done) return placed;
  const Timestamp newest = store.put(part);
  store.reclaim_after(1);
  store.say_visible();
  return {Answer::done, newest};
}

// No reader waits for a sibling of it, so it need not be seen before it is committed.
Timestamp Store::State::put(const Prepare& part) {
  const PlacedWrite& only = placed.front();
  Version& version = write(part, only);
  transactions.add_committed(part.timestamp, {only.key, VersionRef(version)});
  cells.mark_newest(*version.key);
  channel.local_fence();
  const Timestamp newest = commit(version, transactions.settled_bits(part.timestamp));
  if (only.is_new) index.insert(only.key, *only.cell);
  return newest;
}

void Store::settle(const Timestamp& up_to) {
  const auto settled = state_->transactions.settle(up_to);
  if (settled.empty()) return;
  for (const Transactions::Settled& transaction : settled) {
    fetch(transaction.written);
    constexpr std::uint64_t kAll = RecordHead::kEverywhere | RecordHead::kSettled;
    for (const WrittenVersion& each : transaction.written) state_->settle(each, transaction.timestamp, kAll);
  }
  state_->say_visible();
}

void Store::note_everywhere(const Timestamp& transaction) {
  for (const WrittenVersion& each : state_->transactions.note_everywhere(transaction)) {
    state_->settle(each, transaction, RecordHead::kEverywhere);
  }
  state_->say_visible();
}

// Its key's notes may have been closed since, and others opened.
void Store::State::settle(const WrittenVersion& written, const Timestamp& transaction, std::uint64_t bits) {
  Version* version = written.version.find();
  KeyVersions* history = version != nullptr ? version->key : cells.opened(written.key);
  if (history == nullptr) {
    const auto cell = index.find(written.key);
    if (!cell) return;
    history = &cells.open(written.key, *cell);
  }
  if (version == nullptr) version = history->find(transaction);
  if (version != nullptr) {
    cells.mark_settled(*version, bits);
    reclaimer.schedule(*version);
  }
  cells.close(*history);
}

// Termination.

Fate Store::fate_or_bar(const Timestamp& transaction) {
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

std::vector<UnresolvedTransaction> Store::undecided(Time before) const {
  return state_->transactions.undecided(before);
}

std::vector<UnresolvedTransaction> Store::unsettled(Time before) { return state_->transactions.unsettled(before); }

}  // namespace farside::kv
