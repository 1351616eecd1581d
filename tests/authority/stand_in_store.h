// stand_in_store.h — records of one process, as etcd would keep them: a request may have no answer, and take effect all
// the same, or after later ones.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "authority/record_store.h"

namespace farside::test {

class StandInRecords {
 public:
  explicit StandInRecords(std::uint64_t seed) : dice_(seed) {}

  /// One in `number`.
  bool one_in(unsigned number) { return dice_() % number == 0; }
  std::uint64_t below(std::uint64_t number) { return dice_() % number; }

  bool apply(std::span<const authority::Condition> conditions, std::span<const authority::Record> written,
             std::span<const authority::KeyRange> removed) {
    for (const authority::Condition& condition : conditions) {
      const auto found = records_.find(condition.key);
      if (found == records_.end() ? condition.value.has_value() : found->second != condition.value) return false;
    }
    for (const authority::KeyRange& range : removed)
      records_.erase(records_.lower_bound(range.begin), records_.lower_bound(range.end));
    for (const authority::Record& record : written) records_[record.key] = record.value;
    return true;
  }

  /// Some of what had no answer takes effect.
  void take_late() {
    while (!late_.empty() && one_in(2)) {
      const auto at = late_.begin() + static_cast<std::ptrdiff_t>(below(late_.size()));
      const std::function<void()> apply = std::move(*at);
      late_.erase(at);
      apply();
    }
  }
  void add_late(std::function<void()> apply) { late_.push_back(std::move(apply)); }

  [[nodiscard]] const std::map<std::string, std::string>& records() const { return records_; }
  /// As they were once.
  void put_back(std::map<std::string, std::string> records) { records_ = std::move(records); }

  /// Called before each request and after it: what other processes do meanwhile.
  std::function<void()> meanwhile = [] {};
  bool is_faulty = true;
  /// After so many no request has an answer, nor an effect.
  std::optional<int> commits_left{};
  /// No request has an answer, nor an effect.
  std::atomic<bool> is_away = false;
  std::recursive_mutex mutex;  ///< of everything here: `meanwhile` makes requests, too

 private:
  std::mt19937_64 dice_;
  std::map<std::string, std::string> records_;
  std::vector<std::function<void()>> late_;
};

/// One process's way to them.
class StandInStore final : public authority::RecordStore {
 public:
  explicit StandInStore(StandInRecords& shared) : shared_(shared) {}

  std::optional<std::vector<authority::Record>> read(const authority::KeyRange& range) override {
    const std::lock_guard lock(shared_.mutex);
    if (shared_.is_away) return std::nullopt;
    shared_.meanwhile();
    if (shared_.is_faulty && shared_.one_in(8)) return std::nullopt;
    std::vector<authority::Record> found;
    const auto& records = shared_.records();
    for (auto each = records.lower_bound(range.begin); each != records.lower_bound(range.end); ++each)
      found.push_back({each->first, each->second});
    shared_.meanwhile();
    return found;
  }

  authority::Commit commit(std::span<const authority::Condition> conditions, std::span<const authority::Record> written,
                           std::span<const authority::KeyRange> removed) override {
    using authority::Commit;
    const std::lock_guard lock(shared_.mutex);
    if (shared_.is_away) return Commit::unknown;
    shared_.meanwhile();
    if (shared_.commits_left == 0) return Commit::unknown;
    if (shared_.commits_left) --*shared_.commits_left;
    if (!shared_.is_faulty || !shared_.one_in(4)) {
      const bool is_done = shared_.apply(conditions, written, removed);
      shared_.meanwhile();
      return is_done ? Commit::done : Commit::conflict;
    }
    if (shared_.one_in(2)) {
      shared_.apply(conditions, written, removed);
    } else if (shared_.one_in(2)) {
      shared_.add_late(
          [&shared = shared_, conditions = std::vector(conditions.begin(), conditions.end()),
           written = std::vector(written.begin(), written.end()),
           removed = std::vector(removed.begin(), removed.end())] { shared.apply(conditions, written, removed); });
    }
    shared_.meanwhile();
    return Commit::unknown;
  }

  std::string why() const override { return "it is faulty"; }
  std::string name() const override { return "the records of this test"; }

 private:
  StandInRecords& shared_;
};

}  // namespace farside::test
