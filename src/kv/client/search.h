// search.h — one key of a get: what is wanted of it, and what was found.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "farside/fabric/channel.h"

#include "kv/protocol/record.h"
#include "kv/protocol/requests.h"

namespace farside::kv {

struct Search {
  std::string_view key;
  KeyId id;

  bool found = false;   ///< otherwise the key is absent
  Timestamp timestamp;  ///< of the version found; 0 when absent
  Record record;        ///< when found; its views point into `bytes`
  Message bytes;        ///< of the record
  RecordPlace place;    ///< where it was
  Timestamp forgotten;  ///< what the server said, if it was asked

  void set_absent() {
    found = false;
    timestamp = {};
  }
  void set_found(const Record& what) {
    found = true;
    timestamp = what.head.timestamp;
    record = what;
  }
};

/// A way to read.
class VersionSource {
 public:
  virtual ~VersionSource() = default;
  VersionSource(const VersionSource&) = delete;
  VersionSource& operator=(const VersionSource&) = delete;

  /// Finds for each key the version with the highest timestamp among `candidates`, committed or not; or else, and when
  /// there are none, the newest committed.
  virtual Outcome find(std::span<Search* const> searches, std::span<const Timestamp> candidates, Deadline deadline) = 0;
  /// A server's memory is elsewhere now.
  virtual void forget_places() {}

 protected:
  VersionSource() = default;
};

}  // namespace farside::kv
