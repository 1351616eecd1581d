// place_cache.h — where a client last found its keys: bounded, and only ever a hint.
//
// Stands alone: the two ways to READ a key have one each.
#pragma once

#include <bit>
#include <cstddef>
#include <vector>

#include "kv/protocol/key_id.h"

namespace farside::kv {

/// Each key has one place in it, which it may lose to another.
template <class Place>
class PlaceCache {
 public:
  explicit PlaceCache(std::size_t about_keys) : entries_(std::bit_ceil(about_keys)) {}

  /// Null if it is not known.
  [[nodiscard]] const Place* find(const KeyId& key) const {
    const Entry& entry = entries_[key.low & (entries_.size() - 1)];
    return entry.known && entry.key == key ? &entry.place : nullptr;
  }
  void keep(const KeyId& key, const Place& place) { entries_[key.low & (entries_.size() - 1)] = {key, place, true}; }
  void clear() { entries_.assign(entries_.size(), {}); }
  void drop(const KeyId& key) {
    Entry& entry = entries_[key.low & (entries_.size() - 1)];
    if (entry.key == key) entry.known = false;
  }

 private:
  struct Entry {
    KeyId key;
    Place place{};
    bool known = false;
  };
  std::vector<Entry> entries_;
};

}  // namespace farside::kv
