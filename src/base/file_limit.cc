#include "base/file_limit.h"

#include <atomic>
#include <filesystem>
#include <iterator>

#include <sys/resource.h>

#include "farside/base/error.h"

namespace farside {

namespace {

constexpr rlim_t kUnchanged = RLIM_INFINITY;
std::atomic<rlim_t> soft_before = kUnchanged;

}  // namespace

void allow_many_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  rlim_t unchanged = kUnchanged;
  soft_before.compare_exchange_strong(unchanged, limit.rlim_cur);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

void forget_many_files() noexcept {
  rlimit limit{};
  const rlim_t before = soft_before;
  if (before == kUnchanged || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = before;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

void expect_files(std::size_t more, const std::string& tried, const std::string& on) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) throw errno_error("read", "the limit of open files");
  std::error_code failed;
  const std::filesystem::directory_iterator open("/proc/self/fd", failed);
  const auto now = failed ? 0 : static_cast<std::size_t>(std::distance(begin(open), end(open)));
  if (now + more <= limit.rlim_cur) return;
  throw Error({tried, on,
               "it takes " + std::to_string(more) + " open files beside the " + std::to_string(now) +
                   " that are open, and the limit is " + std::to_string(limit.rlim_cur),
               "raise the hard limit (ulimit -Hn, LimitNOFILE= of a service)"});
}

}  // namespace farside
