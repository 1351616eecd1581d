#include "kv/journal/directory.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include "farside/base/error.h"
#include "farside/base/log.h"

namespace farside::kv {

namespace {

constexpr std::string_view kUnfinished = ".new";
constexpr const char* kRemedy = "name a directory that can be written";
constexpr int kDigits = 16;
constexpr int kHex = 16;

std::string_view prefix_of(JournalFileKind kind) { return kind == JournalFileKind::log ? "log-" : "snapshot-"; }

std::string unfinished_name_of(const JournalFileId& file) {
  return JournalDirectory::name_of(file) + std::string(kUnfinished);
}

constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH;

struct stat status_of(const Fd& directory, const std::filesystem::path& path) {
  struct stat status {};
  if (::fstat(directory.get(), &status) != 0) throw errno_error("keep a journal in", path, kRemedy);
  return status;
}

// Another user with write access to the directory could change what the server recovers. A directory of another user's
// may be ours all the same: a file server may give what we make to another number.
void expect_owner(const Fd& directory, const std::filesystem::path& path, bool is_new) {
  const uid_t owner = status_of(directory, path).st_uid;
  if (is_new || owner == ::geteuid() || owner == 0) return;
  throw Error({"keep a journal in", path, "it belongs to another user (uid " + std::to_string(owner) + ")",
               "chown it, or name a directory of your own"});
}

// It may have been made under another umask, or be given to a group at each mount.
void take_from_others(const Fd& directory, const std::filesystem::path& path) {
  const mode_t mode = status_of(directory, path).st_mode;
  if ((mode & kOthersWrite) == 0) return;
  if (::fchmod(directory.get(), mode & ~(S_IFMT | kOthersWrite)) == 0 &&
      (status_of(directory, path).st_mode & kOthersWrite) == 0) {
    return log::warn("others than its owner could write to " + path.string() + "; that was taken from them");
  }
  throw Error({"keep a journal in", path, "others than its owner may write to it", "chmod go-w it"});
}

// So that a loss of power does not take the directory with what it has.
void sync_directory(const std::filesystem::path& path) {
  const Fd directory(::open(path.empty() ? "." : path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory || ::fsync(directory.get()) != 0) throw errno_error("keep a journal below", path, kRemedy);
}

Fd open_or_make(const std::filesystem::path& path) {
  std::error_code error;  // what is missing afterwards, open says
  std::filesystem::create_directories(path.parent_path(), error);
  const bool is_new = ::mkdir(path.c_str(), S_IRWXU) == 0;
  if (is_new) sync_directory(path.parent_path());
  Fd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) throw errno_error("keep a journal in", path, kRemedy);
  expect_owner(directory, path, is_new);
  take_from_others(directory, path);
  return directory;
}

}  // namespace

std::vector<std::filesystem::path> entries_of(const std::filesystem::path& path) {
  std::vector<std::filesystem::path> entries;
  std::error_code error;
  for (std::filesystem::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    entries.push_back(at->path());
  }
  if (error) throw Error({"look into", path, error.message(), kRemedy});
  return entries;
}

JournalDirectory::JournalDirectory(std::filesystem::path path) : path_(std::move(path)), fd_(open_or_make(path_)) {
  Fd file(::openat(fd_.get(), "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!file) throw errno_error("open the lock of the journal in", path_, kRemedy);
  lock_ = FileLock::try_lock(std::move(file), FileLock::Kind::exclusive, "lock the journal in", path_);
  if (!lock_) {
    throw Error({"keep a journal in", path_, "another server has its journal there",
                 "end that server, or name another directory"});
  }
  for (const auto& entry : entries_of(path_)) {
    if (entry.extension() == kUnfinished) ::unlink(entry.c_str());
  }
}

std::string JournalDirectory::name_of(const JournalFileId& file) {
  return fmt::format("{}{:0{}x}", prefix_of(file.kind), file.number, kDigits);
}

std::string JournalDirectory::path_of(const JournalFileId& file) const { return path_ / name_of(file); }

std::vector<std::uint64_t> JournalDirectory::numbers_of(JournalFileKind kind) const {
  std::vector<std::uint64_t> numbers;
  const std::string_view prefix = prefix_of(kind);
  for (const auto& entry : entries_of(path_)) {
    const std::string name = entry.filename();
    if (!name.starts_with(prefix)) continue;
    std::uint64_t number = 0;
    std::from_chars(name.data() + prefix.size(), name.data() + name.size(), number, kHex);
    if (name == name_of({kind, number})) numbers.push_back(number);
  }
  std::ranges::sort(numbers);
  return numbers;
}

Fd JournalDirectory::create(const JournalFileId& file) const {
  const std::string name = unfinished_name_of(file);
  return Fd(::openat(fd_.get(), name.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
}

bool JournalDirectory::publish(const JournalFileId& file, const Fd& fd) const {
  const std::string name = name_of(file);
  const std::string unfinished = unfinished_name_of(file);
  return ::fsync(fd.get()) == 0 && ::renameat(fd_.get(), unfinished.c_str(), fd_.get(), name.c_str()) == 0 &&
         ::fsync(fd_.get()) == 0;
}

void JournalDirectory::abandon(const JournalFileId& file) const {
  ::unlinkat(fd_.get(), unfinished_name_of(file).c_str(), 0);
}

Fd JournalDirectory::make_log(const JournalFileId& log, const Partition& partition) const {
  Fd fd = create(log);
  const JournalFileHead head = JournalFileHead::of(log, partition);
  const bool is_made = fd && ::pwrite(fd.get(), &head, sizeof head, 0) == sizeof head && publish(log, fd);
  return is_made ? std::move(fd) : Fd();
}

// A file that cannot be removed is found again when the directory is opened.
void JournalDirectory::remove(const JournalFileId& file) const { ::unlinkat(fd_.get(), name_of(file).c_str(), 0); }

bool JournalDirectory::sync() const { return ::fsync(fd_.get()) == 0; }

}  // namespace farside::kv
