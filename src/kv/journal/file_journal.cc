#include "kv/journal/file_journal.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "farside/base/error.h"
#include "farside/base/log.h"

#include "base/assert.h"

namespace farside::kv {

namespace {

using namespace std::chrono_literals;

constexpr auto kBetweenTries = 100ms;
constexpr auto kBetweenSyncs = 1s;
constexpr auto kBetweenSnapshots = 10s;  // when one could not be written
constexpr auto kBetweenLooks = 1s;       // of a scrub
/// Reserved on the disk: one part in so many of the store's memory, so that a small log entry for each key fits.
constexpr std::uint64_t kReservedPart = 16;
constexpr std::uint64_t kMaxReservedBytes = std::uint64_t{64} << 20U;
/// The system is asked for so much more than is needed, so that it is not asked each time.
constexpr std::uint64_t kReservedAhead = std::uint64_t{1} << 20U;
/// A snapshot is worth its while when the log is so many times what it would have.
constexpr std::uint64_t kLogToLive = 2;
/// On a disk with little room left a log that is shorter by this factor is worth a snapshot.
constexpr std::uint64_t kPartOnATightDisk = 16;

/// 0: all of it is on the disk.
int sync_error(int file) { return ::fdatasync(file) == 0 ? 0 : errno; }

/// Syncs a log beside which others are written. With `always` it is synced before each step, and must not be here: the
/// system reports an error once, and the thread that answers must get it.
int sync_error_of_log(int file, SyncPolicy policy) { return policy == SyncPolicy::always ? 0 : sync_error(file); }

template <class Result>
bool is_over(const std::future<Result>& task) {
  return task.valid() && task.wait_for(0s) == std::future_status::ready;
}

}  // namespace

FileJournal::FileJournal(const JournalSettings& settings, const Partition& partition, Store& store)
    : settings_(settings),
      partition_(partition),
      store_(store),
      directory_(settings.directory),
      log_(recover(directory_, partition, store, settings.on_recovery)),
      reserve_bytes_(std::min(store.use().bytes_total / kReservedPart, kMaxReservedBytes)),
      oldest_(directory_.numbers_of(JournalFileKind::log).front()),
      next_scrub_(Clock::now() + settings.between_scrubs) {
  look_for_room();
}

FileJournal::~FileJournal() {
  if (!has_failed_) (void)log_.sync();
  give_back_reserve();
}

JournalState FileJournal::state() const {
  if (has_failed_) return JournalState::failed;
  if (is_damaged_) return JournalState::damaged;
  return is_full_ || is_stuck_ ? JournalState::full : JournalState::sound;
}

void FileJournal::append_forgotten(const Store::Forgotten& forgotten) {
  const ForgottenState state{forgotten.keys, forgotten.sessions};
  log_.append(JournalEntryHead::Kind::forgotten, std::as_bytes(std::span(&state, 1)));
}

// The system tells of an error once, which may be the other thread.
bool FileJournal::sync_to_disk() {
  if (syncing_.valid()) end_background_sync();
  if (!write()) return false;
  if (log_.sync()) return true;
  give_up(errno);
  return false;
}

bool FileJournal::sync() { return settings_.sync == SyncPolicy::always ? sync_to_disk() : write(); }

bool FileJournal::write() {
  if (has_failed_ || (is_stuck_ && Clock::now() < next_try_)) return false;
  is_stuck_ = !log_.write();
  if (is_stuck_) {
    note_full(errno);
    next_try_ = Clock::now() + kBetweenTries;
    return false;
  }
  look_for_room();
  return true;
}

// ---- Room on the disk

void FileJournal::look_for_room() {
  const bool is_replaced = next_log_.valid() || snapshot_.has_value();  // by a snapshot, which needs the room
  if (is_full_ && is_replaced) return;
  const int error = reserve();
  if (error != 0) return note_full(error);
  if (std::exchange(is_full_, false)) log::info("the journal in " + settings_.directory + " has room again");
}

// A file system that reserves nothing says that it is full when a write fails.
int FileJournal::reserve() {
  const std::uint64_t end = log_.bytes();
  if (end + reserve_bytes_ <= reserved_to_) return 0;
  if (::fallocate(log_.fd().get(), FALLOC_FL_KEEP_SIZE, static_cast<off_t>(end),
                  static_cast<off_t>(bytes_to_reserve())) == 0) {
    reserved_to_ = end + bytes_to_reserve();
    return 0;
  }
  return errno == ENOSPC || errno == EDQUOT || errno == EFBIG ? errno : 0;
}

std::uint64_t FileJournal::bytes_to_reserve() const {
  return reserve_bytes_ + std::min(reserve_bytes_, kReservedAhead);
}

bool FileJournal::has_room_for(std::uint64_t bytes) const {
  struct statvfs disk {};
  if (::fstatvfs(log_.fd().get(), &disk) != 0) return false;
  const std::uint64_t reserved = std::max(reserved_to_, log_.bytes()) - log_.bytes();
  return bytes < disk.f_bavail * disk.f_frsize + reserved;
}

void FileJournal::give_back_reserve() {
  reserved_to_ = 0;
  const std::uint64_t written = log_.bytes() - log_.buffered_bytes();
  if (::ftruncate(log_.fd().get(), static_cast<off_t>(written)) != 0) complain(errno, "what was reserved stays so");
}

void FileJournal::note_full(int error) {
  if (!std::exchange(is_full_, true)) complain(error, "nothing but erasures is taken until there is room");
}

void FileJournal::give_up(int error) {
  complain(error, "no change is taken any more; start the server again when the disk is sound");
  has_failed_ = true;
}

void FileJournal::complain(int error, const char* what) const {
  log::error("the journal in " + settings_.directory + " cannot be written: " + std::strerror(error) + "; " + what);
}

bool FileJournal::step() {
  if (has_failed_) return false;
  if (is_full_ && Clock::now() >= next_try_) {
    next_try_ = Clock::now() + kBetweenTries;
    look_for_room();
  }
  if (settings_.sync == SyncPolicy::everysec) sync_in_background();
  if (is_over(next_log_) && !syncing_.valid()) rotate(next_log_.get());
  if (is_over(publishing_)) end_publishing(publishing_.get());
  if (snapshot_) return write_snapshot();
  scrub_in_background();
  start_snapshot();
  return false;
}

void FileJournal::end_background_sync() {
  if (const int error = syncing_.get(); error != 0) {
    give_up(error);
  } else {
    log_.note_synced(syncing_to_);
  }
}

void FileJournal::sync_in_background() {
  if (is_over(syncing_)) end_background_sync();
  const Clock::time_point now = Clock::now();
  if (syncing_.valid() || now < next_sync_ || log_.synced() == log_.last()) return;
  next_sync_ = now + kBetweenSyncs;
  syncing_to_ = log_.last();
  syncing_ = std::async(std::launch::async, [fd = log_.fd().get()] { return sync_error(fd); });
}

// ---- Snapshots

void FileJournal::start_snapshot() {
  const std::uint64_t live = store_.use().bytes_used;  // with what is superseded, which may be most of it
  const std::uint64_t least = std::max(live, settings_.least_log_bytes / kPartOnATightDisk);
  if (next_log_.valid() || Clock::now() < next_snapshot_) return;
  if (log_.bytes() <= least && !is_damaged_) return;
  const bool is_long = is_damaged_ || log_.bytes() > std::max(settings_.least_log_bytes, kLogToLive * live);
  const bool is_tight = is_full_ || !has_room_for(kLogToLive * live + bytes_to_reserve());
  if (!is_long && !is_tight) return;
  if (is_full_ && !has_room_for(live)) return;
  if (is_full_) give_back_reserve();  // the snapshot needs the room, and leaves more
  const JournalFileId next{JournalFileKind::log, log_.id().number + 1};
  next_log_ = std::async(std::launch::async, [this, next, fd = log_.fd().get()] {
    // Most of what is to be synced before the next log may be used: little is left to be waited for.
    const int error = sync_error_of_log(fd, settings_.sync);
    return NextLog{error, error == 0 ? directory_.make_log(next, partition_) : Fd()};
  });
}

void FileJournal::rotate(NextLog next) {
  assert_that(!snapshot_.has_value(), "one snapshot is written at a time");
  if (next.error != 0) return give_up(next.error);
  if (!next.file) return end_snapshot(false);
  if (!log_.sync()) return give_up(errno);
  give_back_reserve();
  const JournalFileId log{JournalFileKind::log, log_.id().number + 1};
  const JournalFileId snapshot{JournalFileKind::snapshot, log.number};
  log_ = JournalFile(std::move(next.file), log, sizeof(JournalFileHead), log_.last());
  Fd file = directory_.create(snapshot);
  if (!file) return end_snapshot(false);
  snapshot_.emplace(JournalFile(std::move(file), snapshot, partition_, 0), store_, log_.last());
}

bool FileJournal::write_snapshot() {
  if (publishing_.valid()) return false;
  if (!snapshot_->step()) {
    end_snapshot(false);
    return true;
  }
  if (!snapshot_->is_written()) return true;
  publishing_ = std::async(std::launch::async, [this, log = log_.fd().get()] {
    const JournalFile& file = snapshot_->file();
    // Its contents are in the log as well, which may not know less.
    const int error = sync_error_of_log(log, settings_.sync);
    if (error != 0 || !directory_.publish(file.id(), file.fd())) return Published{error, false};
    for (; oldest_ < file.id().number; ++oldest_) {
      directory_.remove({JournalFileKind::log, oldest_});
      directory_.remove({JournalFileKind::snapshot, oldest_});
    }
    return Published{0, true};
  });
  return true;
}

void FileJournal::end_publishing(const Published& published) {
  if (published.error != 0) give_up(published.error);
  end_snapshot(published.done);
}

void FileJournal::end_snapshot(bool is_whole) {
  assert_that(!publishing_.valid(), "a snapshot ends when no thread publishes it");
  if (!is_whole) {
    if (snapshot_) directory_.abandon(snapshot_->file().id());
    if (!has_no_snapshot_) {
      log::warn("no snapshot was written in " + settings_.directory + "; its log goes on growing until one is");
    }
    next_snapshot_ = Clock::now() + kBetweenSnapshots;
  }
  if (is_whole && std::exchange(is_damaged_, false))
    log::info("the journal in " + settings_.directory + " is whole again");
  has_no_snapshot_ = !is_whole;
  snapshot_.reset();
}

// ---- What the disk has

// From the newest snapshot to what of the log has been given to the system. No file goes meanwhile: that is done when a
// snapshot has been written, and then the scrub begins anew.
void FileJournal::scrub_in_background() {
  if (scrubbing_.valid()) {
    if (is_over(scrubbing_)) end_scrub(scrubbing_.get());
    return;
  }
  if (next_log_.valid() || is_damaged_ || Clock::now() < next_scrub_) return;
  if (!scrub_place_) {
    const bool has_snapshot = !directory_.numbers_of(JournalFileKind::snapshot).empty();
    scrub_place_ = ScrubPlace{{has_snapshot ? JournalFileKind::snapshot : JournalFileKind::log, oldest_}};
  }
  std::optional<std::uint64_t> end;
  if (scrub_place_->file.kind == JournalFileKind::log && scrub_place_->file.number == log_.id().number) {
    end = log_.bytes() - log_.buffered_bytes();
  }
  scrubbing_ = std::async(std::launch::async,
                          [this, place = *scrub_place_, end] { return scrub(directory_, partition_, place, end); });
}

void FileJournal::end_scrub(const Scrubbed& scrubbed) {
  next_scrub_ = Clock::now() + std::min<Clock::duration>(kBetweenLooks, settings_.between_scrubs);
  if (!scrubbed.flaw.empty()) {
    log::error("the disk has not what was written to " + directory_.path_of(scrubbed.place.file) + ": " +
               scrubbed.flaw + "; what is in memory is written anew");
    is_damaged_ = true;
  } else if (!scrubbed.is_at_end) {
    scrub_place_ = scrubbed.place;
    return;
  } else if (scrubbed.place.file.kind == JournalFileKind::snapshot) {
    scrub_place_ = ScrubPlace{{JournalFileKind::log, scrubbed.place.file.number}};
    return;
  } else if (scrubbed.place.file.number < log_.id().number) {
    scrub_place_ = ScrubPlace{{JournalFileKind::log, scrubbed.place.file.number + 1}};
    return;
  }
  scrub_place_.reset();
  next_scrub_ = Clock::now() + settings_.between_scrubs;
}

}  // namespace farside::kv
