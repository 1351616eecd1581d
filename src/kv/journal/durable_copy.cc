#include "kv/journal/durable_copy.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/core.h>
#include <unistd.h>

#include "farside/base/error.h"
#include "farside/base/log.h"

#include "base/assert.h"

namespace farside::kv {

namespace {

constexpr std::string_view kFolder = "journal-";
constexpr std::uint64_t kFirstFolder = 1;

/// The claim of a journal that was kept before there were two copies.
bool is_adopted(const CopyRecord& record) {
  return record.claim().standing == CopyStanding::alone && record.claim().epoch == 0 && record.folder() == kFirstFolder;
}

std::uint64_t new_store_number() {
  std::random_device dice;
  std::uint64_t number = 0;
  while (number == 0) number = std::uint64_t{dice()} << 32U | dice();
  return number;
}

void remove_all(const std::vector<std::filesystem::path>& folders) {
  std::error_code ignored;  // one that cannot be removed is found again at the next start
  for (const auto& each : folders) std::filesystem::remove_all(each, ignored);
}

}  // namespace

DurableCopy::DurableCopy(JournalSettings settings, const Partition& partition, unsigned seat)
    : settings_(std::move(settings)),
      partition_(partition),
      directory_(settings_.directory),
      record_((expect_record(), settings_.directory), partition, seat) {
  adopt_sole_journal();
  expect_what_is_claimed();
  const auto others = folders_but(record_.folder());
  if (others.empty()) return;
  // The record may be one of which its writer was told that the disk has not got it.
  if (!record_.write(record_.claim(), record_.folder())) throw errno_error("write", settings_.directory);
  remove_all(others);
}

// A folder is made after the record, without which nothing says which folder counts.
void DurableCopy::expect_record() const {
  const std::filesystem::path directory = settings_.directory;
  if (std::filesystem::exists(directory / CopyRecord::kName) || folders_but(0).empty()) return;
  throw Error({"recover from", directory, "its file copy is missing, which says what the copy is",
               "put back the whole directory, or give up what it has by removing it"});
}

std::filesystem::path DurableCopy::folder(std::uint64_t number) const {
  return std::filesystem::path(settings_.directory) / fmt::format("{}{:016x}", kFolder, number);
}

// The record comes first: after it a server that has no standby is refused, however far the files have come.
void DurableCopy::adopt_sole_journal() {
  std::vector<JournalFileId> files;
  for (const JournalFileKind kind : {JournalFileKind::snapshot, JournalFileKind::log}) {
    for (const std::uint64_t number : directory_.numbers_of(kind)) files.push_back({kind, number});
  }
  if (files.empty()) return;
  const std::filesystem::path directory = settings_.directory;
  const JournalReader is_of_this_server(directory_.path_of(files.back()), files.back(), partition_);
  if (record_.claim() == CopyClaim{} && !record_.write({CopyStanding::alone, 0, new_store_number()}, kFirstFolder)) {
    throw errno_error("write", directory / CopyRecord::kName);
  }
  if (!is_adopted(record_)) {
    throw Error({"recover from", directory, "it has one of two copies, and a journal of a server that has no standby",
                 "remove what is not wanted: the folder " + folder(record_.folder()).string() +
                     " and the file copy, or the files log-* and snapshot-*"});
  }
  const JournalDirectory into(folder(kFirstFolder));
  for (const JournalFileId& file : files) {
    if (::rename(directory_.path_of(file).c_str(), into.path_of(file).c_str()) != 0) {
      throw errno_error("move", directory_.path_of(file));
    }
  }
  if (!into.sync() || !directory_.sync()) throw errno_error("write", directory);
  log::info("the journal in " + directory.string() + " is that of one of two copies from now on");
}

// One that is not there must not become an empty one, which the other copy would be replaced by.
void DurableCopy::expect_what_is_claimed() const {
  if (record_.folder() == 0) return;
  if (std::filesystem::is_directory(folder(record_.folder()))) {
    const JournalDirectory claimed(folder(record_.folder()));
    if (!claimed.numbers_of(JournalFileKind::log).empty()) return;
  }
  throw Error({"recover from", folder(record_.folder()),
               "its journal is not there, and the copy is " + to_string(record_.claim()),
               "put back the whole directory, or give up what it has by removing it"});
}

std::vector<std::filesystem::path> DurableCopy::folders_but(std::uint64_t number) const {
  std::vector<std::filesystem::path> folders = entries_of(settings_.directory);
  std::erase_if(folders, [kept = folder(number)](const std::filesystem::path& each) {
    return each == kept || !each.filename().string().starts_with(kFolder);
  });
  return folders;
}

void DurableCopy::open_journal(std::uint64_t folder_number, Store& store) {
  assert_that(journal_ == nullptr, "a copy is recovered or made once");
  JournalSettings settings = settings_;
  settings.directory = folder(folder_number);
  journal_ = std::make_unique<FileJournal>(settings, partition_, store);
  open_folder_ = folder_number;
}

std::uint64_t DurableCopy::recover(Store& store) {
  open_journal(std::max(record_.folder(), kFirstFolder), store);
  const CopyClaim before = record_.claim();
  const std::uint64_t number = before.store != 0 ? before.store : new_store_number();
  const std::uint64_t epoch = before.epoch + 1;
  if (!journal_->sync_to_disk() || !record_.write({CopyStanding::alone, epoch, number}, open_folder_)) {
    throw errno_error("write", std::filesystem::path(settings_.directory) / CopyRecord::kName);
  }
  return epoch;
}

bool DurableCopy::begin_copy(std::uint64_t store_number, std::uint64_t epoch) {
  assert_that(store_ != nullptr && journal_ == nullptr, "a copy is begun once, after it was prepared");
  const CopyClaim before = record_.claim();
  if (before.store != 0 && before.store != store_number) {
    return give_up("it has a copy of another store; name another directory, or remove it");
  }
  if (before.is_primarys() && before.epoch >= epoch) {
    return give_up("it is " + to_string(before) + ", and the server that would replace it of epoch " +
                   std::to_string(epoch) + "; end one of the two nodes, and remove the directory that is not wanted");
  }
  try {
    remove_all(folders_but(record_.folder()));
    if (!folders_but(record_.folder()).empty()) return give_up("what is left of another cannot be removed");
    open_journal(record_.folder() + 1, *store_);
  } catch (const Error& error) {
    return give_up(error.what());
  }
  const bool is_first = before.standing <= CopyStanding::begun;
  return write({is_first ? CopyStanding::begun : CopyStanding::former, before.epoch, store_number}, record_.folder());
}

bool DurableCopy::write(const CopyClaim& claim, std::uint64_t folder_number) {
  return record_.write(claim, folder_number) || give_up(std::strerror(errno));
}

bool DurableCopy::give_up(std::string_view why) {
  has_failed_ = true;
  log::error("the copy in " + settings_.directory + " cannot be kept: " + std::string(why));
  return false;
}

void DurableCopy::append(std::span<const std::byte> request) {
  assert_that(journal_ != nullptr, "changes are noted of a copy that was recovered or begun");
  unsynced_ += request.size();
  journal_->append(request, {});
}

void DurableCopy::append_version(std::span<const std::byte> request) {
  assert_that(journal_ != nullptr, "versions are noted of a copy that was begun");
  unsynced_ += request.size();
  journal_->append_version(request);
}

void DurableCopy::append_forgotten(const Store::Forgotten& forgotten) {
  assert_that(journal_ != nullptr, "what was forgotten is noted of a copy that was begun");
  journal_->append_forgotten(forgotten);
}

bool DurableCopy::keep() {
  if (has_failed_) return false;
  if (journal_ == nullptr) return true;
  if (is_claimed()) return journal_->sync();
  if (unsynced_ < kMaxUnsynced) return journal_->write();
  unsynced_ = 0;
  return journal_->sync_to_disk();
}

bool DurableCopy::claim(CopyStanding standing, std::uint64_t epoch) {
  const CopyClaim before = record_.claim();
  const bool is_new_folder = !is_claimed();
  if (has_failed_) return false;
  if (journal_ == nullptr) return give_up("no copy was begun");
  if (!is_new_folder && standing == before.standing && epoch == before.epoch) return true;
  // A claim of the same folder is no more than its policy promises of what is in it.
  if (!(is_new_folder ? journal_->sync_to_disk() : journal_->sync())) return give_up("its journal cannot be written");
  const std::filesystem::path former = folder(record_.folder());
  if (!write({standing, epoch, before.store}, open_folder_)) return false;
  if (is_new_folder) removing_ = std::async(std::launch::async, [former] { remove_all({former}); });
  return true;
}

MemoryUse DurableCopy::with_state(MemoryUse use) const {
  if (journal_) use = journal_->with_state(use);
  if (has_failed_) use.journal = JournalState::failed;
  return use;
}

void DurableCopy::expect_none_in(const std::filesystem::path& directory) {
  if (!std::filesystem::exists(directory / CopyRecord::kName)) return;
  if (CopyRecord(directory).claim().standing == CopyStanding::none) return;
  throw Error({"keep a journal in", directory, "it has one of two copies, and the other one may have more",
               "start the pool with two copies, as before, or name another directory"});
}

}  // namespace farside::kv
