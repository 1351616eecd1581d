#include "base/file_lock.h"

#include <cerrno>

#include <sys/file.h>

#include "farside/base/error.h"

namespace farside {

std::optional<FileLock> FileLock::try_lock(Fd file, Kind kind, std::string tried, std::string on, std::string remedy) {
  const int operation = kind == Kind::exclusive ? LOCK_EX : LOCK_SH;
  if (::flock(file.get(), operation | LOCK_NB) == 0) return FileLock(std::move(file));
  if (errno == EWOULDBLOCK) return std::nullopt;
  throw errno_error(std::move(tried), std::move(on), std::move(remedy));
}

}  // namespace farside
