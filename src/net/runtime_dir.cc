#include "net/runtime_dir.h"

#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "farside/base/error.h"
#include "farside/base/fd.h"

namespace farside::net {

namespace {

constexpr const char* kRemedy = "set FARSIDE_RUNTIME_DIR to a directory that only you may enter";
constexpr std::string_view kJobPrefix = "job-";

std::filesystem::path chosen_dir() {
  if (const char* own = ::secure_getenv("FARSIDE_RUNTIME_DIR")) return own;
  if (const char* session = ::secure_getenv("XDG_RUNTIME_DIR")) return std::filesystem::path(session) / "farside";
  return "/tmp/farside-" + std::to_string(::geteuid());
}

Fd open_dir(const std::filesystem::path& dir) {
  return Fd(::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
}

// Returns the lock of a job's directory, or nothing when another process holds it.
std::optional<FileLock> try_lock(Fd dir, const std::filesystem::path& path) {
  return FileLock::try_lock(std::move(dir), FileLock::Kind::exclusive, "lock", path, kRemedy);
}

void remove_abandoned_jobs(const std::filesystem::path& dir) {
  std::error_code ignored;  // another process may be removing the same
  for (const auto& entry : std::filesystem::directory_iterator(dir, ignored)) {
    if (!entry.path().filename().string().starts_with(kJobPrefix)) continue;
    Fd job = open_dir(entry.path());
    if (job && try_lock(std::move(job), entry.path())) std::filesystem::remove_all(entry.path(), ignored);
  }
}

}  // namespace

std::filesystem::path runtime_dir() {
  std::filesystem::path dir = chosen_dir();
  if (::mkdir(dir.c_str(), 0700) != 0 && errno != EEXIST) throw errno_error("make the runtime directory", dir, kRemedy);
  struct stat status {};
  if (::lstat(dir.c_str(), &status) != 0) throw errno_error("look at the runtime directory", dir, kRemedy);
  if (!S_ISDIR(status.st_mode)) throw Error({"use the runtime directory", dir, "it is not a directory", kRemedy});
  if (status.st_uid != ::geteuid()) {
    throw Error({"use the runtime directory", dir, "it belongs to another user", kRemedy});
  }
  if ((status.st_mode & 077) != 0) {
    throw Error({"use the runtime directory", dir, "others may enter it", "chmod 700 it, or " + std::string(kRemedy)});
  }
  return dir;
}

JobDir::JobDir() {
  const std::filesystem::path dir = runtime_dir();
  remove_abandoned_jobs(dir);
  for (;;) {
    std::string path = dir / (std::string(kJobPrefix) + "XXXXXX");
    if (::mkdtemp(path.data()) == nullptr) throw errno_error("make a directory in", dir, kRemedy);
    path_ = path;
    Fd job = open_dir(path_);
    if (!job && errno != ENOENT) throw errno_error("lock", path_);
    if (job) lock_ = try_lock(std::move(job), path_);
    if (lock_ && std::filesystem::exists(path_)) return;
    // A process that cleans up locked it first and removes it: take another.
  }
}

JobDir::~JobDir() {
  std::error_code ignored;  // what stays is removed by the next job
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace farside::net
