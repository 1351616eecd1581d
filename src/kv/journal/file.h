// file.h — one file of a journal as it is written, and as it is read.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "farside/base/error.h"
#include "farside/base/fd.h"

#include "base/assert.h"
#include "kv/journal/format.h"

namespace farside::kv {

/// Appends entries: to its buffer, from there to the system, from there to the disk.
///
/// Thread safety: one thread at a time.
class JournalFile {
 public:
  /// `file` has `bytes`, the last of its entries is number `last`, and all of it is on the disk.
  JournalFile(Fd file, const JournalFileId& id, std::uint64_t bytes, std::uint64_t last)
      : fd_(std::move(file)), id_(id), offset_(bytes), last_(last), synced_(last) {}
  /// A new one, whose head is not written yet; its entries follow number `last`.
  JournalFile(Fd file, const JournalFileId& id, const Partition& partition, std::uint64_t last);

  void append(JournalEntryHead::Kind kind, std::span<const std::byte> body);
  /// Gives the system what is in the buffer. False, with errno set: what is left stays there.
  [[nodiscard]] bool write();
  /// Syncs everything to the disk. False: it is unknown what is there.
  [[nodiscard]] bool sync();
  /// Another thread saw entries up to this one get there.
  void note_synced(std::uint64_t sequence) {
    assert_that(synced_ <= sequence && sequence <= last_, "entries that get to the disk are of this file, in order");
    synced_ = sequence;
  }

  [[nodiscard]] const Fd& fd() const noexcept { return fd_; }
  [[nodiscard]] const JournalFileId& id() const noexcept { return id_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return offset_ + buffer_.size(); }
  [[nodiscard]] std::uint64_t buffered_bytes() const noexcept { return buffer_.size(); }
  [[nodiscard]] std::uint64_t last() const noexcept { return last_; }      ///< entry
  [[nodiscard]] std::uint64_t synced() const noexcept { return synced_; }  ///< entries up to this one are on the disk

 private:
  Fd fd_;
  JournalFileId id_;
  std::vector<std::byte> buffer_;
  std::uint64_t offset_;  // of the buffer
  std::uint64_t last_;
  std::uint64_t synced_;
};

/// Entries in their order, up to the first that is not whole.
class JournalReader {
 public:
  /// Throws Error when there is no such file, or it is not that partition's.
  JournalReader(std::string path, const JournalFileId& id, const Partition& partition);

  /// The entry here, if it is number `sequence`, and whole. Valid until the next one is read.
  [[nodiscard]] std::optional<JournalEntry> next(std::uint64_t sequence);
  /// The entry here, whatever its number, if it is whole.
  [[nodiscard]] std::optional<JournalEntry> next();
  /// Requires a place where an entry begins, or the end.
  void go_to(std::uint64_t offset) { offset_ = offset; }
  [[nodiscard]] std::uint64_t offset() const noexcept { return offset_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] bool has_ended() const noexcept { return offset_ == bytes_; }
  /// Whether some entry after this place was written when number `sequence` was on the disk.
  [[nodiscard]] bool has_proof_of(std::uint64_t sequence);
  [[nodiscard]] Error damage(const std::string& why) const;

 private:
  [[nodiscard]] std::span<const std::byte> at(std::uint64_t offset, std::uint64_t bytes);
  [[nodiscard]] std::optional<JournalEntry> entry_at(std::uint64_t offset);

  std::string path_;
  JournalFileId id_;
  Fd fd_;
  std::uint64_t bytes_ = 0;
  std::uint64_t offset_ = sizeof(JournalFileHead);
  std::vector<std::byte> window_;  // what was read last
  std::uint64_t window_offset_ = 0;
};

}  // namespace farside::kv
