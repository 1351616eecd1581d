// The state that a journal keeps of a store, and how a store is restored from it.
#include <algorithm>
#include <limits>
#include <utility>

#include "base/assert.h"
#include "kv/server/store_state.h"

namespace farside::kv {

// State that a journal keeps beside the changes.

std::vector<KeptVersion> Store::prepared(const Timestamp& transaction) const {
  std::vector<KeptVersion> versions;
  for (const WrittenVersion& each : state_->transactions.written_by(transaction)) {
    const Version& version = each.version.get();
    versions.push_back(state_->kept(each.key, version.key->cell, version.found()));
    versions.back().is_conditional = version.conditional;
  }
  return versions;
}

std::optional<KeptVersion> Store::newest_kept(std::string_view key) const {
  const KeyId id = key_id(key);
  const auto cell = state_->index.find(id);
  const auto version = cell ? state_->cells.newest(*cell) : std::nullopt;
  return version ? std::optional(state_->kept(id, *cell, *version)) : std::nullopt;
}

KeptVersion Store::State::kept(const KeyId& key, const IndexWord& cell, const FoundVersion& version) const {
  KeptVersion kept{std::vector<std::byte>(version.place.bytes),
                   {.record = version.place.offset,
                    .record_chunk = heap.chunk_of(version.place.offset),
                    .cell = IndexWord{IndexWord::tag_of(key), cell.bytes, cell.offset}.word(),
                    .cell_chunk = heap.chunk_of(cell.offset)}};
  region.copy_out(version.place.offset, kept.record);
  return kept;
}

Store::Walked Store::walk(std::uint64_t cursor, std::size_t about) const {
  constexpr std::uint64_t kMaxBuckets = 8192;
  constexpr std::uint64_t kMaxBytes = 256U << 10U;
  Walked walked{{}, cursor, state_->index.buckets()};
  const std::uint64_t end = std::min(state_->index.buckets(), std::min(cursor, state_->index.buckets()) + kMaxBuckets);
  std::uint64_t bytes = 0;
  for (std::size_t seen = 0; walked.next < end && seen < about && bytes < kMaxBytes;) {
    for (const std::uint64_t word : state_->index.bucket(walked.next++)) {
      if (!Index::is_cell(word)) continue;
      ++seen;
      const IndexWord cell = IndexWord::from_word(word);
      if (const auto version = state_->cells.newest(cell)) {
        walked.versions.push_back(state_->kept(state_->head_of(*version).key, cell, *version));
        bytes += version->place.bytes;
      }
    }
  }
  if (walked.next >= state_->index.buckets()) walked.next = 0;
  return walked;
}

std::vector<TakenPlace> Store::taken_places() const {
  std::vector<TakenPlace> places;
  for (const PlacedWrite& write : state_->placed) places.push_back(state_->placement.place_of(write));
  return places;
}

void Store::note_gone_keys() { state_->reclaimer.note_gone_keys(); }

std::vector<GoneKey> Store::take_gone_keys() { return std::exchange(state_->reclaimer.gone_keys(), {}); }

std::size_t Store::gone_keys() const { return state_->reclaimer.gone_keys().size(); }

std::vector<EndedTransactions> Store::ended() const { return state_->transactions.ended(); }

// Recovery.

Answer Store::restore(const Prepare& part) {
  State& store = *state_;
  if (store.transactions.is_known(part.timestamp)) return Answer::done;
  const std::vector<Write> wanted = store.still_wanted(part.timestamp, part.writes);
  const Prepare restored{part.timestamp, part.siblings, part.servers, wanted};
  store.drop_restored(restored);  // a snapshot may have some of them, committed: they will be again
  store.placement.look(restored, store.placed);
  if (!store.placement.take(store.placed)) return Answer::full;
  store.add(restored);
  return Answer::done;
}

// Expired versions come back as they were: they have their room there, too, until they go.
Answer Store::restore_at(const Prepare& part, std::span<const TakenPlace> places) {
  State& store = *state_;
  if (store.transactions.is_known(part.timestamp)) return Answer::done;
  store.drop_restored(part);
  store.placement.look(part, store.placed);
  if (!store.placement.take_at(store.placed, places)) return Answer::refused;
  store.add(part);
  return Answer::done;
}

void Store::State::drop_restored(const Prepare& part) {
  for (const Write& write : part.writes) {
    const KeyId key = key_id(write.key);
    const auto cell = index.find(key);
    if (!cell || !cells.at(key, *cell, part.timestamp)) continue;
    Version* const version = cells.open(key, *cell).find(part.timestamp);
    assert_that(version != nullptr, "a version that a cell shows is noted when the cell is opened");
    drop(*version);
  }
}

void Store::drop_gone(const GoneKey& gone) {
  State& store = *state_;
  store.reclaimer.forget(gone.timestamp);
  const auto cell = store.index.find(gone.key);
  const auto version = cell ? store.cells.at(gone.key, *cell, gone.timestamp) : std::nullopt;
  if (!version || version->place.state != VersionState::committed) return;
  Version* const found = store.cells.open(gone.key, *cell).find(gone.timestamp);
  assert_that(found != nullptr, "a version that a cell shows is noted when the cell is opened");
  store.drop(*found);
}

std::vector<Write> Store::State::still_wanted(const Timestamp& transaction, std::span<const Write> writes) const {
  std::vector<Write> wanted;
  for (const Write& write : writes) {
    const auto later = to_come.find(key_id(write.key));
    if (later != to_come.end() && later->second > transaction) continue;
    const bool is_over = write.expires_ns != 0 && write.expires_ns <= wall_ns();
    wanted.push_back(is_over ? Write{.key = write.key, .erase = true, .expected = write.expected} : write);
  }
  return wanted;
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
  const std::vector<Write> wanted = store.still_wanted(timestamp, {&write, 1});
  if (wanted.empty()) return Answer::done;
  const Prepare part{timestamp, siblings, {}, wanted};
  store.placement.look(part, store.placed);
  if (store.is_there(timestamp)) return Answer::done;  // it is prepared
  if (!store.placement.take(store.placed)) return Answer::full;
  store.add_restored(part, settled);
  return Answer::done;
}

Answer Store::restore_version_at(const Timestamp& timestamp, const Siblings& siblings, const Write& write,
                                 std::uint64_t settled, const TakenPlace& place) {
  State& store = *state_;
  const Prepare part{timestamp, siblings, {}, {&write, 1}};
  store.placement.look(part, store.placed);
  if (store.is_there(timestamp)) return Answer::done;
  if (!store.placement.take_at(store.placed, {&place, 1})) return Answer::refused;
  store.add_restored(part, settled);
  return Answer::done;
}

void Store::State::add_restored(const Prepare& part, std::uint64_t settled) {
  const PlacedWrite& only = placed.front();
  Version& version = write(part, only);
  transactions.note_written(part.timestamp, {only.key, VersionRef(version)});
  commit(version, settled | transactions.settled_bits(part.timestamp));
  if (only.is_new) index.insert(only.key, *only.cell);
}

Store::Forgotten Store::all_forgotten() const { return {forgotten(), state_->transactions.forgotten()}; }

void Store::forget(const Forgotten& forgotten) {
  state_->reclaimer.forget(forgotten.keys);
  state_->transactions.forget(forgotten.sessions);
}

void Store::bar_unknown(const Timestamp& up_to) { state_->transactions.bar_unknown(up_to); }

void Store::expect(std::map<KeyId, Timestamp> later) {
  state_->to_come = std::move(later);
  for (const auto& [key, timestamp] : state_->to_come) state_->drop_older(key, timestamp);
}

void Store::State::drop_older(const KeyId& key, const Timestamp& than) {
  const auto cell = index.find(key);
  if (!cell) return;
  KeyVersions& history = cells.open(key, *cell);
  std::vector<Version*> older;
  for (Version& version : history.versions) {
    if (version.timestamp < than && version.committed()) older.push_back(&version);
  }
  for (Version* version : older) cells.drop(*version);
  if (history.versions.empty()) return cells.remove(history);
  cells.mark_newest(history);
  cells.close(history);
}

void Store::reclaim_at_once() {
  (void)state_->reclaimer.reclaim(std::numeric_limits<std::size_t>::max(), {std::numeric_limits<std::int64_t>::max()});
}

}  // namespace farside::kv
