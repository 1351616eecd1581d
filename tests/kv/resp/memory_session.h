// memory_session.h — a session whose keys are in this process, for tests of what is in front of one.
#pragma once

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "farside/kv/session.h"

namespace farside::test {

/// The keys, shared by the sessions of several threads.
struct MemoryKeys {
  struct Value {
    std::string bytes;
    std::uint64_t expires_ns;
    kv::Timestamp version;
  };

  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const Value>, std::less<>> values;
  std::uint64_t versions = 0;
  std::uint64_t full_from = UINT64_MAX;  ///< with so many keys nothing is written but what erases
  std::uint64_t frozen_ns = 0;           ///< what the time is; 0: what the clock says
  std::uint64_t gets = 0;                ///< calls so far, as the next
  std::uint64_t puts = 0;
  bool answers = true;
  bool is_lost = false;  ///< with `answers` false: the server, which is number 1
  bool is_writable = true;
};

class MemorySession : public kv::Session {
 public:
  explicit MemorySession(MemoryKeys& keys) : keys_(keys) {}

  std::uint64_t wall_ns() const override {
    if (keys_.frozen_ns != 0) return keys_.frozen_ns;
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
  }

  Result<std::span<const kv::Got>> get_all(std::span<const std::string_view> keys) override {
    const std::lock_guard lock(keys_.mutex);
    ++keys_.gets;
    got_.clear();
    kept_.clear();
    for (const auto key : keys) {
      const auto found = find(key);
      got_.push_back(found ? kv::Got{true, found->version, found->bytes, found->expires_ns} : kv::Got{});
      kept_.push_back(found);
    }
    return {keys_.answers ? Outcome::done : Outcome::timed_out, got_};
  }

  kv::PutOutcome put_all(std::span<const kv::Write> writes) override {
    const std::lock_guard lock(keys_.mutex);
    const auto is_as_expected = [this](const kv::Write& each) {
      const auto found = find(each.key);
      return !each.expected || *each.expected == (found ? found->version : kv::Timestamp());
    };
    return std::ranges::all_of(writes, is_as_expected) ? write(writes) : kv::PutOutcome::differs;
  }

  void put_each(std::span<kv::IndependentPut> puts, const kv::PutEnded& ended) override {
    for (kv::IndependentPut& put : puts) {
      put.outcome = put_all(put.writes);
      ended(put);
    }
  }

  std::optional<std::uint32_t> lost_server_of(std::string_view /*key*/) const override {
    return keys_.is_lost ? std::optional<std::uint32_t>(1) : std::nullopt;
  }

  Result<kv::Scanned> scan(std::uint64_t cursor, std::string_view prefix, std::size_t about) override {
    const std::lock_guard lock(keys_.mutex);
    kv::Scanned scanned;
    std::uint64_t place = 0;
    for (const auto& [key, value] : keys_.values) {
      if (place++ < cursor) continue;
      if (key.starts_with(prefix) && find(key)) scanned.keys.push_back(key);
      if (place - cursor == about) break;
    }
    scanned.next = place < keys_.values.size() ? place : 0;
    return {Outcome::done, std::move(scanned)};
  }

  Result<std::vector<kv::MemoryUse>> use() override {
    const std::lock_guard lock(keys_.mutex);
    return {Outcome::done, {{.keys = keys_.values.size()}}};
  }

 private:
  std::shared_ptr<const MemoryKeys::Value> find(std::string_view key) const {
    const auto found = keys_.values.find(key);
    if (found == keys_.values.end()) return nullptr;
    const auto expires_ns = found->second->expires_ns;
    return expires_ns == 0 || expires_ns > wall_ns() ? found->second : nullptr;
  }

  kv::PutOutcome write(std::span<const kv::Write> writes) {
    ++keys_.puts;
    if (!keys_.answers) return kv::PutOutcome::unknown;
    if (!keys_.is_writable) return kv::PutOutcome::unwritable;
    for (const auto& write : writes) {
      if (!write.erase && keys_.values.size() >= keys_.full_from) return kv::PutOutcome::full;
    }
    const kv::Timestamp version{++keys_.versions, 1};
    for (const auto& write : writes) {
      if (write.erase) {
        if (const auto found = keys_.values.find(write.key); found != keys_.values.end()) keys_.values.erase(found);
      } else {
        keys_.values[std::string(write.key)] =
            std::make_shared<MemoryKeys::Value>(MemoryKeys::Value{std::string(write.value), write.expires_ns, version});
      }
    }
    return kv::PutOutcome::done;
  }

  MemoryKeys& keys_;
  std::vector<kv::Got> got_;                                    // by the last get
  std::vector<std::shared_ptr<const MemoryKeys::Value>> kept_;  // what that points to
};

}  // namespace farside::test
