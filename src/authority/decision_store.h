// decision_store.h — where a coordinator keeps what it decides (team/decision_log.h): in a file (file_store.h), or in
// records that all machines can reach (office_store.h).
//
// Stands alone: the coordinator's log is written through it, wherever it is.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace farside::authority {

enum class [[nodiscard]] Kept : std::uint8_t{
    kept,        ///< it is durable, and each later coordinator finds it
    superseded,  ///< another coordinator has the right to decide: nothing was kept
    rewound,     ///< former entries are gone: nothing was kept; replace all of them
    failed,      ///< it is unknown what is kept
};

/// A sequence of entries. Thread safety: one thread at a time.
class DecisionStore {
 public:
  virtual ~DecisionStore() = default;
  DecisionStore(const DecisionStore&) = delete;
  DecisionStore& operator=(const DecisionStore&) = delete;

  /// Returns all entries, in order; none where nothing was kept yet. Throws Error when they cannot be read or are
  /// damaged.
  [[nodiscard]] virtual std::vector<std::string> read() = 0;
  /// Has `entries`, at least one, in the place of all others. Unless they are kept the former ones are as they were.
  virtual Kept replace(std::span<const std::string> entries) = 0;
  /// Requires: the last call of replace or append returned Kept::kept.
  virtual Kept append(std::string_view entry) = 0;
  /// Returns whether nothing is left.
  [[nodiscard]] virtual bool remove() noexcept = 0;

  /// A log of so many bytes is to be replaced by one with the state alone, when that is a quarter of it.
  [[nodiscard]] virtual std::uint64_t large_bytes() const = 0;

  /// Returns the place of the entries, for messages.
  [[nodiscard]] virtual std::string name() const = 0;
  /// Returns why the last call did not keep an entry, and what to do.
  [[nodiscard]] virtual std::string why() const = 0;

 protected:
  DecisionStore() = default;
};

}  // namespace farside::authority
