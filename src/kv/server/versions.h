// versions.h — the versions of a key as the server has noted them: of those keys of which something is prepared,
// superseded or erased.
//
// References to a version are kept until it is committed, settled or reclaimed. Its place in memory is used for others
// after it, and never given back, so a reference tells whether it is still there.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <utility>

#include <boost/intrusive/list.hpp>

#include "base/assert.h"
#include "kv/protocol/layout.h"
#include "kv/server/store.h"

namespace farside::kv {

struct KeyVersions;

/// A version as the server has noted it.
struct Version {
  static constexpr Time kNotDue{std::numeric_limits<std::int64_t>::max()};

  Timestamp timestamp;
  std::uint64_t generation = 0;  ///< 0: it has gone
  RecordPlace place;
  bool erased = false;
  bool conditional = false;  ///< nothing comes between it and what its writer expected
  std::uint64_t mark = 0;    ///< its bits, as in its record
  Time due = kNotDue;        ///< when it may be reclaimed: it is superseded or erased
  KeyVersions* key = nullptr;
  boost::intrusive::list_member_hook<> hook{};

  [[nodiscard]] bool committed() const { return place.state == VersionState::committed; }
  [[nodiscard]] FoundVersion found() const { return {timestamp, generation, place}; }
};
using Versions = boost::intrusive::list<
    Version, boost::intrusive::member_hook<Version, boost::intrusive::list_member_hook<>, &Version::hook>>;

/// A version that may have gone, or whose key's notes may have been closed since.
class VersionRef {
 public:
  explicit VersionRef(Version& version) : version_(&version), generation_(version.generation) {}

  /// Null: it is not noted there any more.
  [[nodiscard]] Version* find() const { return version_->generation == generation_ ? version_ : nullptr; }
  /// Requires that it has not gone: it is prepared, and its transaction has not ended.
  [[nodiscard]] Version& get() const {
    Version* const version = find();
    assert_that(version != nullptr, "a version that is prepared is noted until its transaction ends");
    return *version;
  }
  /// It will be looked for soon, and then its key.
  void fetch() const { __builtin_prefetch(version_); }
  void fetch_key() const { __builtin_prefetch(version_->key); }

 private:
  Version* version_;
  std::uint64_t generation_;
};

/// A transaction's write of a key.
struct WrittenVersion {
  KeyId key;
  VersionRef version;
};

/// All versions of a key. There may be thousands: of one that is written all the time. They come at the end and go at
/// the beginning, or nearly so, and what is looked for is near the end: a search begins there.
///
/// Each of them lies in memory that no cache may have, so what is asked all the time is kept here.
struct KeyVersions {
  KeyId key;
  IndexWord cell;
  Versions versions{};                              ///< by timestamp
  std::array<Timestamp, CellHead::kSlots> slots{};  ///< the version in each; 0: none
  std::size_t prepared = 0;                         ///< how many are not committed
  Version* newest_committed = nullptr;

  /// The first above it.
  [[nodiscard]] Versions::const_iterator above(const Timestamp& timestamp) const;
  [[nodiscard]] const Version* find(const Timestamp& timestamp) const;
  [[nodiscard]] Version* find(const Timestamp& timestamp) {
    return const_cast<Version*>(std::as_const(*this).find(timestamp));
  }
  [[nodiscard]] const Version* newest() const { return newest_committed; }
  [[nodiscard]] Version* newest() { return newest_committed; }
  /// It has come, or changed.
  void count(Version& version);
  /// It is about to change, or has gone.
  void discount(const Version& version);
  /// The highest timestamp of all.
  [[nodiscard]] Timestamp last() const { return versions.empty() ? Timestamp{} : versions.back().timestamp; }
  /// That of the last conditional version that is prepared above all that are committed; 0: there is none.
  [[nodiscard]] Timestamp last_conditional() const;
  [[nodiscard]] bool is_there() const {
    const Version* last = newest();
    return last != nullptr && !last->erased;
  }
  /// The cell says it all.
  [[nodiscard]] bool is_quiet() const {
    return versions.size() == 1 && versions.front().committed() && !versions.front().erased;
  }
  /// The server alone knows of it.
  [[nodiscard]] bool is_unseen(const Version& version) const {
    return std::ranges::find(slots, version.timestamp) == slots.end();
  }
};

/// A pool of places for versions.
class VersionPlaces {
 public:
  /// In place of what bears the timestamp.
  Version& put(KeyVersions& history, const Version& version);
  void drop(Version& version);
  void drop_all(KeyVersions& history);

 private:
  std::deque<Version> places_;
  Versions unused_;
};

}  // namespace farside::kv
