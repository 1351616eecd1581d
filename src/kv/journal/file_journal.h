// file_journal.h — a server's journal in a directory: a log of changes, and now and then a snapshot in place of the
// older part of it (docs/protocols/kv_journal.md).
//
// Changes are given to the system with each `sync`, and so outlive the process; SyncPolicy says when they outlive the
// machine. Ahead of the log's end room is reserved on the disk. When there is no more of it the disk is full: what
// makes room is written to what was reserved, and nothing else is taken until there is room again. When the disk fails
// nothing is taken, for good: what such a disk holds is not known.
//
// Thread safety: one thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <future>
#include <optional>
#include <string>

#include "kv/journal/directory.h"
#include "kv/journal/file.h"
#include "kv/journal/recovery.h"
#include "kv/journal/scrub.h"
#include "kv/journal/snapshot.h"
#include "kv/server/journal.h"
#include "kv/server/store.h"

namespace farside::kv {

/// When what was acknowledged is on the disk.
enum class SyncPolicy : std::uint8_t {
  always,    ///< before it is acknowledged
  everysec,  ///< a second later, or two
  no,        ///< when the system likes
};

struct JournalSettings {
  std::string directory{};
  SyncPolicy sync = SyncPolicy::everysec;
  std::uint64_t least_log_bytes = std::uint64_t{4} << 20U;  ///< a shorter log is not worth a snapshot
  RecoveryProgress on_recovery{};
  std::chrono::milliseconds between_scrubs = std::chrono::hours(1);  ///< of all files, and at the start
};

class FileJournal final : public Journal {
 public:
  /// Recovers `store`, which is empty and outlives this, from the directory. Throws Error as `recover` does.
  FileJournal(const JournalSettings& settings, const Partition& partition, Store& store);
  ~FileJournal() override;

  void append(std::span<const std::byte> request, std::span<const TakenPlace> /*places*/) override {
    log_.append(JournalEntryHead::Kind::request, request);
  }
  /// Notes a version, or what was forgotten, of the store that this one is copied from.
  void append_version(std::span<const std::byte> put) { log_.append(JournalEntryHead::Kind::version, put); }
  void append_forgotten(const Store::Forgotten& forgotten);
  bool sync() override;
  /// Gives the system what was appended, whatever the policy: it outlives the process.
  [[nodiscard]] bool write();
  /// Syncs to the disk what was appended, whatever the policy. False: it failed, and nothing is kept any more.
  [[nodiscard]] bool sync_to_disk();
  /// After an `error` that leaves unknown what the disk has: nothing is taken any more. There is no second try: the
  /// system tells of lost pages once.
  void give_up(int error);
  [[nodiscard]] bool takes() const override { return !is_full_ && takes_erasures(); }
  [[nodiscard]] bool takes_erasures() const override { return !is_stuck_ && !has_failed_; }
  [[nodiscard]] JournalState state() const;
  [[nodiscard]] MemoryUse with_state(MemoryUse use) const override {
    use.journal = state();
    return use;
  }
  bool step() override;

 private:
  using Clock = std::chrono::steady_clock;

  /// The result of a task that syncs the log first.
  struct NextLog {
    int error;  // of the sync; 0: none
    Fd file;    // none: it could not be made
  };
  struct Published {
    int error;
    bool done;
  };

  /// Finds out whether the disk is full.
  void look_for_room();
  /// 0, or why there is no room ahead of the log's end.
  [[nodiscard]] int reserve();
  /// At a time: the reserve and, so that the system is not asked each time, some more.
  [[nodiscard]] std::uint64_t bytes_to_reserve() const;
  void give_back_reserve();
  /// With what is reserved.
  [[nodiscard]] bool has_room_for(std::uint64_t bytes) const;
  void note_full(int error);
  void sync_in_background();
  /// Waits for it.
  void end_background_sync();
  void start_snapshot();
  void rotate(NextLog next);
  void end_publishing(const Published& published);
  bool write_snapshot();
  void end_snapshot(bool is_whole);
  /// Has another thread look at some of the files, and what is damaged replaced by a snapshot of what is in memory.
  void scrub_in_background();
  void end_scrub(const Scrubbed& scrubbed);
  void complain(int error, const char* what) const;

  const JournalSettings settings_;
  const Partition partition_;
  Store& store_;
  const JournalDirectory directory_;
  JournalFile log_;
  const std::uint64_t reserve_bytes_;
  std::uint64_t reserved_to_ = 0;  // of the log
  bool is_full_ = false;           // there is no more to be reserved
  bool is_stuck_ = false;          // nor is any of it left
  bool has_failed_ = false;        // what is on the disk is not known
  Clock::time_point next_try_{};
  Clock::time_point next_snapshot_{};
  bool has_no_snapshot_ = false;  // the last try failed

  // Tasks of other threads.
  std::future<int> syncing_;  // the log up to `syncing_to_`; an error, or 0
  std::uint64_t syncing_to_ = 0;
  Clock::time_point next_sync_{};
  std::future<NextLog> next_log_;
  std::optional<Snapshot> snapshot_;
  std::uint64_t oldest_;               // log that there is; for the publishing thread
  std::future<Published> publishing_;  // the snapshot
  std::future<Scrubbed> scrubbing_;
  std::optional<ScrubPlace> scrub_place_;  // none: no scrub is under way
  Clock::time_point next_scrub_;
  bool is_damaged_ = false;  // until there is another snapshot
};

}  // namespace farside::kv
