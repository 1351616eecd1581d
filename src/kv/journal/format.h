// format.h — the bytes of a journal's files (docs/protocols/kv_journal.md has the picture).
//
// All numbers are little-endian. A file is a head and then entries, each padded to 8 bytes. Every byte of it is under
// some checksum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "kv/protocol/key_id.h"
#include "kv/protocol/requests.h"
#include "kv/protocol/timestamp.h"

namespace farside::kv {

enum class JournalFileKind : std::uint32_t {
  log,       ///< changes in the order in which they were made
  snapshot,  ///< what is left of all changes before the log of the same number
};

/// Which file it is. Its seed keeps entries of one file from being taken for another's.
struct JournalFileId {
  JournalFileKind kind = JournalFileKind::log;
  std::uint64_t number = 0;

  [[nodiscard]] std::uint64_t seed() const { return number << 1U | static_cast<std::uint64_t>(kind); }
};

/// Whose keys are in the directory.
struct Partition {
  ServerNumber server = 0;
  ServerNumber servers = 1;
};

struct JournalFileHead {
  static constexpr std::uint64_t kMagic = 0x6c616e72756f6a6b;  ///< "kjournal"
  static constexpr std::uint32_t kVersion = 2;
  static constexpr std::uint32_t kOldestVersion = 1;  ///< that can be read: it has neither version nor forgotten

  std::uint64_t magic;
  std::uint32_t version;
  JournalFileKind kind;
  std::uint64_t number;
  ServerNumber server;
  ServerNumber servers;
  std::uint64_t checksum;  ///< XXH3 of all before it

  [[nodiscard]] static JournalFileHead of(const JournalFileId& file, const Partition& partition);
  [[nodiscard]] std::uint64_t checksum_of() const;
};
static_assert(sizeof(JournalFileHead) == 40 && std::has_unique_object_representations_v<JournalFileHead>);

struct JournalEntryHead {
  enum class Kind : std::uint32_t {
    request,    ///< that changed the store, as it came
    end,        ///< of a snapshot: a SnapshotEnd
    version,    ///< of a log: one that was copied from the primary, as a snapshot has it
    forgotten,  ///< of a log: what the primary had forgotten when all was copied, a ForgottenState
  };

  std::uint64_t checksum;  ///< XXH3 of the rest of the head and the body, seeded with the file's seed
  std::uint64_t sequence;  ///< one more than that of the entry before
  std::uint64_t synced;    ///< entries up to this one were on the disk when this one was written
  std::uint32_t bytes;     ///< of the body
  Kind kind;
};
static_assert(sizeof(JournalEntryHead) == 32 && std::has_unique_object_representations_v<JournalEntryHead>);

struct JournalEntry {
  JournalEntryHead head;
  std::span<const std::byte> body;

  /// In the file.
  [[nodiscard]] static constexpr std::uint64_t whole_bytes(std::uint64_t body_bytes) {
    return sizeof(JournalEntryHead) + (body_bytes + 7) / 8 * 8;
  }
};

struct SnapshotEnd {
  Timestamp forgotten_keys;  ///< as Store::Forgotten has it
  std::uint64_t forgotten_sessions;
  std::uint64_t last;  ///< entry before the first of the log of the same number
};
static_assert(sizeof(SnapshotEnd) == 32 && std::has_unique_object_representations_v<SnapshotEnd>);

struct ForgottenState {
  Timestamp keys;  ///< as Store::Forgotten has it
  std::uint64_t sessions;
};
static_assert(sizeof(ForgottenState) == 24 && std::has_unique_object_representations_v<ForgottenState>);

inline constexpr std::uint64_t kMaxEntryBytes = kMaxMessageBytes;

/// Appends an entry to `into`.
void write_entry(std::vector<std::byte>& into, const JournalFileId& file, JournalEntryHead head,
                 std::span<const std::byte> body);

/// The entry that `bytes` begin with, if it is one, and whole; trusts nothing.
[[nodiscard]] std::optional<JournalEntry> read_entry(std::span<const std::byte> bytes, const JournalFileId& file);

}  // namespace farside::kv
