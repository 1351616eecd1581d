#include "kv/resp/unit_of_work.h"

#include <functional>

#include "base/assert.h"

namespace farside::kv {

void UnitOfWork::begin() {
  entries_.clear();
  places_.assign(kFewestPlaces, 0);
  kept_.clear();
  now_ns_ = session_->wall_ns();
}

void UnitOfWork::release_memory() {
  entries_ = {};
  places_ = std::vector<std::uint32_t>(kFewestPlaces);
  kept_ = {};
  keys_ = {};
  writes_ = {};
}

UnitOfWork::Entry& UnitOfWork::entry(std::string_view key) {
  std::uint32_t& place = place_of(key);
  if (place != 0) return entries_[place - 1];
  entries_.push_back({.key = key});
  place = static_cast<std::uint32_t>(entries_.size());
  if (2 * entries_.size() > places_.size()) make_room();
  return entries_.back();
}

std::uint32_t& UnitOfWork::place_of(std::string_view key) {
  assert_that(2 * entries_.size() <= places_.size(), "there are twice as many places as entries at least");
  const std::size_t mask = places_.size() - 1;
  std::size_t at = std::hash<std::string_view>()(key) & mask;
  while (places_[at] != 0 && entries_[places_[at] - 1].key != key) at = (at + 1) & mask;
  return places_[at];
}

void UnitOfWork::make_room() {
  places_.assign(2 * places_.size(), 0);
  for (std::size_t i = 0; i < entries_.size(); ++i) place_of(entries_[i].key) = static_cast<std::uint32_t>(i + 1);
}

bool UnitOfWork::load() {
  keys_.clear();
  for (const Entry& entry : entries_) {
    if (entry.wanted) keys_.push_back(entry.key);
  }
  if (keys_.empty()) return true;
  const auto got = session_->get_all(keys_);
  if (!got.done()) return false;
  assert_that(got.value.size() == keys_.size(), "a get finds something of each key");
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    const Got& found = got.value[i];
    Entry& entry = this->entry(keys_[i]);
    entry.present = found.present;
    entry.version = found.version;
    entry.value = {found.value, found.expires_ns};
  }
  return true;
}

const UnitOfWork::Value* UnitOfWork::find(std::string_view key) const {
  const std::uint32_t place = place_of(key);
  assert_that(place != 0, "a key that is looked for has an entry: it was wanted, or written");
  const Entry& entry = entries_[place - 1];
  return entry.present ? &entry.value : nullptr;
}

void UnitOfWork::set(std::string_view key, std::string_view value, std::uint64_t expires_ns) {
  if (expires_ns != 0 && expires_ns <= now_ns_) return erase(key);
  Entry& entry = this->entry(key);
  entry.present = true;
  entry.written = true;
  entry.value = {value, expires_ns};
}

void UnitOfWork::erase(std::string_view key) {
  Entry& entry = this->entry(key);
  entry.present = false;
  entry.written = true;
}

PutOutcome UnitOfWork::commit() {
  const auto all = writes();
  return all.empty() ? PutOutcome::done : session_->put_all(all);
}

std::span<const Write> UnitOfWork::writes() {
  writes_.clear();
  for (const Entry& entry : entries_) {
    if (!entry.written) continue;
    if (entry.present) {
      writes_.push_back({.key = entry.key, .value = entry.value.bytes, .expires_ns = entry.value.expires_ns});
    } else {
      writes_.push_back({.key = entry.key, .value = {}, .erase = true});
    }
    if (entry.wanted) writes_.back().expected = entry.version;
  }
  return writes_;
}

}  // namespace farside::kv
