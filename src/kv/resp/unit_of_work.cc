#include "kv/resp/unit_of_work.h"

namespace farside::kv {

void UnitOfWork::begin() {
  entries_.clear();
  kept_.clear();
  now_ns_ = session_.wall_ns();
}

bool UnitOfWork::load() {
  keys_.clear();
  for (const auto& [key, entry] : entries_) {
    if (entry.wanted) keys_.push_back(key);
  }
  if (keys_.empty()) return true;
  if (session_.get_all(keys_, got_) != Outcome::done) return false;
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    Entry& entry = entries_.find(keys_[i])->second;
    entry.present = got_[i].present;
    entry.version = got_[i].version;
    entry.value = {got_[i].value, got_[i].expires_ns};
  }
  return true;
}

const UnitOfWork::Value* UnitOfWork::find(std::string_view key) const {
  const Entry& entry = entries_.find(key)->second;
  return entry.present ? &entry.value : nullptr;
}

void UnitOfWork::set(std::string_view key, std::string_view value, std::uint64_t expires_ns) {
  if (expires_ns != 0 && expires_ns <= now_ns_) return erase(key);
  Entry& entry = entries_[key];
  entry.present = true;
  entry.written = true;
  entry.value = {value, expires_ns};
}

void UnitOfWork::erase(std::string_view key) {
  Entry& entry = entries_[key];
  entry.present = false;
  entry.written = true;
}

PutOutcome UnitOfWork::commit() {
  const auto all = writes();
  return all.empty() ? PutOutcome::done : session_.put_all(all);
}

std::span<const Write> UnitOfWork::writes() {
  writes_.clear();
  for (const auto& [key, entry] : entries_) {
    if (!entry.written) continue;
    if (entry.present) {
      writes_.push_back({.key = key, .value = entry.value.bytes, .expires_ns = entry.value.expires_ns});
    } else {
      writes_.push_back({.key = key, .value = {}, .erase = true});
    }
    if (entry.wanted) writes_.back().expected = entry.version;
  }
  return writes_;
}

}  // namespace farside::kv
