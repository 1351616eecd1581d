#include "bench/far/swap_file.h"

#include <cstdlib>
#include <string>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/swap.h>
#include <unistd.h>

#include "farside/base/error.h"
#include "farside/base/fd.h"

namespace farside::bench {

SwapFile::SwapFile(std::filesystem::path path, std::uint64_t bytes) : path_(std::move(path)) {
  const auto fail = [this](const char* tried, const char* cure) {
    const Error error = errno_error(tried, path_, cure);
    ::unlink(path_.c_str());
    throw error;
  };
  {
    const Fd file(::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!file) fail("make the swap file", "set TMPDIR to a folder on a disk");
    if (errno = ::posix_fallocate(file.get(), 0, static_cast<off_t>(bytes)); errno != 0) {
      fail("make room in the swap file", "set TMPDIR to a folder with room");
    }
  }
  errno = EINVAL;
  if (std::system(("mkswap -q '" + path_.string() + "' >/dev/null 2>&1").c_str()) != 0) {
    fail("prepare the swap file", "install util-linux");
  }
  remover_ = ::popen(
      fmt::format("trap '' HUP INT TERM; cat; swapoff '{0}' 2>/dev/null; rm -f '{0}'", path_.string()).c_str(), "we");
  if (remover_ == nullptr) fail("watch over", "free some memory");
  if (::swapon(path_.c_str(), SWAP_FLAG_PREFER | 32767) != 0) {
    const Error error = errno_error("swap to", path_, "be root; set TMPDIR to a folder on a disk");
    ::pclose(remover_);
    throw error;
  }
}

SwapFile::~SwapFile() { ::pclose(remover_); }

}  // namespace farside::bench
