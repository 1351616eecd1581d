#include "kv/protocol/store.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "farside/base/error.h"

#include "kv/protocol/store_state.h"

namespace farside::kv {

namespace {

constexpr std::uint64_t kLeastBytes = 64U << 10U;
/// A word of the index for so much memory at least: no key takes less.
constexpr std::uint64_t kBytesPerWord = 384;
constexpr std::size_t kReclaimedAtOnce = 64;

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

Store::State::State(const Fabric& fabric_, Channel& channel_, const Region& region_, const StoreSettings& settings,
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
      reclaimer(fabric, channel, region, cells, rules, rules.keeps_superseded ? settings.grace : Duration::zero(),
                settings.superseded_bytes) {}

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
  make_record(record, part.siblings.bytes, write.key, write.value, record_bytes);
  cells.add(history, {part.timestamp, record.generation, place, write.erase, write.expected.has_value()}, record_bytes);
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
  const bool is_one = keys.size() == 1;
  for (const KeyId& key : keys) newest = std::max(newest, store.commit(key, transaction, is_one ? settled : 0));
  // A mark says of its siblings that they are committed: who reads it forgets them, and they can be seen by then.
  if (!is_one && settled != 0) {
    store.channel.local_fence();
    for (const KeyId& key : keys) store.settle(key, transaction, settled);
  }
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

Answered Store::put(const Timestamp& timestamp, std::span<const Write> writes, const Siblings& siblings) {
  const Answered prepared = prepare({timestamp, siblings, {}, writes});
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
  KeyVersions* history = cells.opened(key);
  if (history == nullptr) {
    const auto cell = index.find(key);
    if (!cell) return;
    history = &cells.open(key, *cell);
  }
  if (Version* version = history->find(transaction)) {
    cells.mark_settled(*history, *version, bits);
    reclaimer.schedule(*history, *version);
  }
  cells.close(*history);
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

}  // namespace farside::kv
