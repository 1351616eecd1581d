// anomaly.h — why a history is not what a store promised.
#pragma once

#include <string>
#include <vector>

namespace farside::kv {

struct HistoryAnomaly {
  /// From what is wrong with one read to what takes more and more of the history to see.
  enum class Kind {
    thin_air_read,        ///< of a value that was not written
    aborted_read,         ///< of what an aborted transaction wrote
    intermediate_read,    ///< of what its writer overwrote itself
    future_read,          ///< of what the same transaction writes later
    own_write_missed,     ///< of something older than the session's own write
    non_repeatable_read,  ///< of another version than the same transaction saw before
    circular_flow,        ///< transactions that read, one from another, in a circle
    fractured_read,       ///< of a part of another transaction's writes
    non_monotonic_read,   ///< of something older than the session read before. Read Atomic alone allows it
  };

  Kind kind;
  std::vector<std::string> evidence;  ///< a sentence each, with the lines they stand on
};

/// "fractured read"
[[nodiscard]] std::string name_of(HistoryAnomaly::Kind kind);

}  // namespace farside::kv
