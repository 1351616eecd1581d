// types.h — what is written to a store, what is read from it, and how: the words of kv's calls.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace farside::kv {

/// Timeout of finding a server, of opening a session and of each call.
inline constexpr std::chrono::milliseconds kDefaultTimeout{10'000};

/// When a version was written: unique, and later than everything its writer had seen. Compared time first.
struct Timestamp {
  std::uint64_t time = 0;     ///< ns, roughly of wall time; 0: before everything
  std::uint64_t session = 0;  ///< the writer: no two sessions ever have the same number

  friend auto operator<=>(const Timestamp&, const Timestamp&) = default;  // NOLINT(modernize-use-nullptr): as in time.h
};

/// One key's part of a transaction. A key has 1 B to 64 KiB, a value 0 B to 16 MiB; an erased key's value is empty.
struct Write {
  std::string_view key{};
  std::string_view value{};
  std::uint64_t expires_ns = 0;  ///< wall time; 0: never
  bool erase = false;
  /// It is written only if the key's newest committed version is this one, and no other client writes in between; the
  /// zero timestamp: if the key is absent. None: in any case.
  std::optional<Timestamp> expected{};
};

/// The outcome of a put.
enum class [[nodiscard]] PutOutcome : std::uint8_t{
    done,     ///< every get that begins later sees it
    full,     ///< a server has no room; nothing was written
    differs,  ///< a key is not what was expected, or another client is writing it; nothing was written
    /// Nothing was written: a server can keep nothing more (the disk of its journal is full or has failed, its standby
    /// does not keep up, or too much waits there for a silent server), or a server is silent and the ends of 1,024
    /// earlier puts of this session there are unknown.
    unwritable,
    too_few_copies,  ///< a server has fewer copies than it must have (farside up --kv-min-copies); nothing was written
    unknown,         ///< it was or will be written, as a whole, or not at all: an answer did not come in time
};

/// One of several puts that have nothing to do with each other.
struct IndependentPut {
  std::span<const Write> writes{};
  PutOutcome outcome = PutOutcome::unknown;
  Timestamp version{};  ///< that was written, or tried last
};

/// A key of a get.
struct Got {
  bool present = false;          ///< neither erased nor expired
  Timestamp version{};           ///< what Write::expected is compared with; 0 when never written
  std::string_view value{};      ///< valid until the session's next get
  std::uint64_t expires_ns = 0;  ///< wall time; 0: never
};

/// A part of the keys that there are.
struct Scanned {
  std::vector<std::string> keys;
  std::uint64_t next = 0;  ///< the next call's cursor; 0: that was all
};

/// Whether a server's journal can be written, and has what was written.
enum class JournalState : std::uint8_t {
  none,  ///< it has no journal
  sound,
  full,     ///< the disk is; the server takes nothing but erasures until there is room
  failed,   ///< the disk did; the server takes no change until it is started again
  damaged,  ///< the disk has not what was written; what is in memory is written anew
};

/// How many copies there are of what a server has.
enum class Copies : std::uint8_t {
  single,   ///< the store keeps one
  both,     ///< as it should be
  one,      ///< the other server is dead, or has given up
  copying,  ///< one, and another is being made
};

/// The use of a server's memory, and the state of what it outlives its process by.
struct MemoryUse {
  std::uint64_t keys = 0;      ///< that are there, and some that have expired just now
  std::uint64_t versions = 0;  ///< of all keys
  std::uint64_t bytes_used = 0;
  std::uint64_t bytes_total = 0;
  std::uint64_t bytes_outside = 0;  ///< besides: rings of sessions, and a table of when keys expire
  JournalState journal = JournalState::none;
  Copies copies = Copies::single;
  std::uint16_t copied_permille = 0;  ///< of the copy that is being made
  std::uint32_t degraded_s = 0;       ///< for so long there has been one copy where there should be two
};

/// How a session reads.
enum class ReadWay : std::uint8_t {
  ask,        ///< GET, GET+: by a request to the server
  addresses,  ///< GET*: where the version was, unless its mark says that there is a newer one
  cells,      ///< index, cell and record, by READs alone
};

/// How a version describes the other keys that its transaction wrote.
enum class SiblingsKind : std::uint16_t {
  none,    ///< RAMP-Small: only the timestamp tells
  list,    ///< RAMP-Fast: their KeyIds
  filter,  ///< RAMP-Hybrid: a Bloom filter of them
};

/// How the waiter for a message learns that it came.
enum class Waking : std::uint8_t {
  polled,    ///< looks for itself, with exponential backoff
  doorbell,  ///< is woken
};

}  // namespace farside::kv
