// Reads of a store, and reclamation.
#include <algorithm>

#include "kv/server/store_state.h"

namespace farside::kv {

namespace {

// A hundred thousand keys in a second, and no more than a hundredth of its time.
constexpr std::uint64_t kBucketsAtOnce = 16;
constexpr Duration kBetweenLooks = std::chrono::milliseconds(1);

}  // namespace

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
  const auto highest = state_->cells.among(id, *cell, candidates);
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

Scanned Store::scan(std::uint64_t cursor, std::string_view prefix, std::size_t about) {
  constexpr std::uint64_t kMaxBuckets = 8192;  // where there are few keys, so that others need not wait for long
  Scanned scanned{{}, cursor};
  const std::uint64_t end = std::min(state_->index.buckets(), std::min(cursor, state_->index.buckets()) + kMaxBuckets);
  for (std::size_t seen = 0; scanned.next < end && seen < std::max<std::size_t>(about, 1);) {
    for (const std::uint64_t word : state_->index.bucket(scanned.next++)) {
      if (!Index::is_cell(word)) continue;
      ++seen;
      const auto version = state_->cells.newest(IndexWord::from_word(word));
      if (!version) continue;
      const RecordHead record = state_->head_of(*version);
      if ((record.flags & RecordHead::kErased) != 0) continue;
      if (state_->is_expired(record)) {
        state_->expire(record.key, IndexWord::from_word(word));
        continue;
      }
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

// Looks at a few keys at a time, now and then, so that it costs little: the aim is to free their memory.
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
  reclaimer.schedule(*history.newest());
}

MemoryUse Store::use() const {
  return {state_->cells.keys(), state_->cells.versions(), state_->heap.bytes_used(), state_->heap.bytes_total(),
          JournalState::none};
}

Timestamp Store::forgotten() const { return state_->reclaimer.forgotten(); }

}  // namespace farside::kv
