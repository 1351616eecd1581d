// Reads of a store, and reclamation.
#include <algorithm>

#include "kv/server/store_state.h"

namespace farside::kv {

namespace {

// The background walk passes the whole index in this time, whatever its size: less than a thousandth of a core for each
// 2 GiB of the store. To find a key takes some microseconds, so that 64,000 in a second take a third of a core.
constexpr Duration kWholeWalk = std::chrono::seconds(2);
constexpr std::uint64_t kMinBucketsAtOnce = 16;
constexpr std::int64_t kKeysPerLook = 64;
constexpr Duration kBetweenLooks = std::chrono::milliseconds(1);
/// An idle server looks as seldom as that. After a longer time it does no more at once, so that no request waits.
constexpr Duration kMaxBetweenLooks = std::chrono::milliseconds(20);

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

// Looks at a few buckets at a time, so that it costs little: the aim is to free memory.
void Store::State::look_for_expired() {
  const Time now = fabric.now();
  const Duration since = std::min(now - looked_for_expired, kMaxBetweenLooks);
  if (since < kBetweenLooks) return;
  looked_for_expired = now;
  const std::uint64_t share = index.buckets() * static_cast<std::uint64_t>(since.count()) / kWholeWalk.count();
  (void)find_expired(std::max(share + 1, kMinBucketsAtOnce),
                     static_cast<std::size_t>(since / kBetweenLooks * kKeysPerLook));
}

std::size_t Store::State::find_expired(std::uint64_t buckets, std::size_t keys) {
  const std::uint64_t now_ns = wall_ns();
  std::size_t found = 0;
  while (found < keys) {
    const auto [passed, due] = expiries.next_due(buckets, now_ns);
    if (!due) break;
    buckets -= passed;
    found += expire_keys_of(*due);
  }
  return found;
}

// The keys whose search begins at the bucket are in it, or in those to which it goes on.
std::size_t Store::State::expire_keys_of(std::uint64_t bucket) {
  std::size_t found = 0;
  std::uint64_t next_ns = Expiries::kNever;
  for (std::uint64_t number = bucket, looked_at = 0; looked_at < index.buckets(); ++looked_at) {
    for (const std::uint64_t word : index.bucket(number)) {
      const IndexWord cell = IndexWord::from_word(word);
      const auto newest = Index::is_cell(word) ? cells.newest(cell) : std::nullopt;
      if (!newest) continue;
      const RecordHead record = head_of(*newest);
      if (is_expired(record)) {
        expire(record.key, cell);
        ++found;
      } else if (record.expires_ns != 0) {
        next_ns = std::min(next_ns, record.expires_ns);
      }
    }
    if (!index.is_passed(number)) break;
    number = index.after(number);
  }
  expiries.set(bucket, next_ns);
  return found;
}

// From now on it is to the server as if erased.
void Store::State::expire(const KeyId& key, const IndexWord& cell) {
  KeyVersions& history = cells.open(key, cell);
  cells.expire(history);
  reclaimer.schedule(*history.newest());
}

MemoryUse Store::use() const {
  return {.keys = state_->cells.keys(),
          .versions = state_->cells.versions(),
          .bytes_used = state_->heap.bytes_used(),
          .bytes_total = state_->heap.bytes_total(),
          .bytes_outside = state_->expiries.bytes()};
}

Timestamp Store::forgotten() const { return state_->reclaimer.forgotten(); }

}  // namespace farside::kv
