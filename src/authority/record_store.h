// record_store.h — records that all machines of a pool can reach, and that change by compare-and-swap. The
// implementation for pools is etcd_store.h; tests have one that fails at any step.
//
// Stands alone: office.h needs no more of a replicated store than this.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace farside::authority {

struct Record {
  std::string key;
  std::string value;

  friend bool operator==(const Record&, const Record&) = default;
};

/// That a record has this value; none: that there is no such record.
struct Condition {
  std::string key;
  std::optional<std::string> value;
};

/// All records with keys from `begin` on and before `end`.
struct KeyRange {
  std::string begin;
  std::string end;

  [[nodiscard]] static KeyRange only(const std::string& key) { return {key, key + '\0'}; }
};

enum class [[nodiscard]] Commit : std::uint8_t{
    done,
    conflict,  ///< a condition did not hold, and nothing was changed
    unknown,   ///< no answer: it may have been done, or be done later
};

/// No call throws but for want of memory. Thread safety: one thread at a time.
class RecordStore {
 public:
  virtual ~RecordStore() = default;
  RecordStore(const RecordStore&) = delete;
  RecordStore& operator=(const RecordStore&) = delete;

  /// Returns all records of `range`, in the order of their keys, as they were at one moment after the call began. None:
  /// no answer.
  [[nodiscard]] virtual std::optional<std::vector<Record>> read(const KeyRange& range) = 0;
  /// If all `conditions` hold: removes `removed`, then writes `written`. At one moment. At most kMaxWritten records, of
  /// kMaxValue bytes each.
  virtual Commit commit(std::span<const Condition> conditions, std::span<const Record> written,
                        std::span<const KeyRange> removed) = 0;

  /// Returns why the last call had no answer.
  [[nodiscard]] virtual std::string why() const = 0;
  /// Returns where the records are, for messages.
  [[nodiscard]] virtual std::string name() const = 0;

  /// An answer is waited for so long.
  static constexpr std::chrono::milliseconds kAnswer{1'500};
  static constexpr std::size_t kMaxWritten = 32;
  static constexpr std::size_t kMaxValue = 32U << 10U;

 protected:
  RecordStore() = default;
};

}  // namespace farside::authority
