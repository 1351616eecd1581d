#include "node/files/mount_watch.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "farside/base/error.h"
#include "farside/base/log.h"
#include "farside/base/mix.h"

#include "base/assert.h"
#include "base/random_bits.h"

namespace farside::node {

namespace {

constexpr const char* kVariable = "FARSIDE_MOUNT_WATCH";  // the descriptor and the nonce of the shared instance

// A watch must be for something. Events are never read: the kernel keeps a bounded number of them.
constexpr std::uint32_t kEvents = IN_DELETE_SELF;

constexpr std::string_view kWatchLabel = "inotify wd:";

struct WatchLine {
  std::uint32_t watch;
  std::uint64_t device;  // of the file system, as inside the kernel
};

std::optional<std::uint64_t> hexadecimal_after(std::string_view line, std::string_view label) {
  const std::size_t at = line.find(label);
  if (at == std::string_view::npos) return std::nullopt;
  line.remove_prefix(at + label.size());
  std::uint64_t number = 0;
  const auto [end, code] = std::from_chars(line.data(), line.data() + line.size(), number, 16);
  if (code != std::errc{}) return std::nullopt;
  return number;
}

// proc(5): "inotify wd:1 ino:2 sdev:700000 mask:400 ..."
std::optional<WatchLine> parse_watch_line(std::string_view line) {
  const auto watch = hexadecimal_after(line, kWatchLabel);
  const auto device = hexadecimal_after(line, " sdev:");
  if (!watch || !device) return std::nullopt;
  return WatchLine{static_cast<std::uint32_t>(*watch), *device};
}

template <class Action>
void for_each_watch(const std::string& table, const Action& action) {
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    if (const auto parsed = parse_watch_line(line)) action(*parsed);
  }
}

bool is_inotify_instance(int fd) {
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  std::array<char, PATH_MAX> target{};
  const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
  return length > 0 && std::string_view(target.data(), static_cast<std::size_t>(length)) == "anon_inode:inotify";
}

struct Inherited {
  int descriptor = -1;
  std::uint64_t nonce = 0;
};

std::optional<Inherited> parse_variable(const std::string& text) {
  Inherited inherited;
  char separator = 0;
  std::istringstream words(text);
  return words >> inherited.descriptor >> separator >> inherited.nonce ? std::optional(inherited) : std::nullopt;
}

std::string variable_of(const Fd& instance, std::uint64_t nonce) {
  return std::string(kVariable) + "=" + std::to_string(instance.get()) + ":" + std::to_string(nonce);
}

}  // namespace

SharedMountWatch share_mount_watch() {
  Fd instance(::inotify_init1(IN_NONBLOCK));
  if (!instance) return {};
  std::string variable = variable_of(instance, random_bits<std::uint64_t>());
  return {std::move(instance), std::move(variable)};
}

std::optional<SharedMountWatch> take_mount_watch(pid_t process, const Fd& pidfd) {
  const std::string prefix = std::string(kVariable) + "=";
  std::ifstream environment("/proc/" + std::to_string(process) + "/environ");
  std::string entry;
  while (std::getline(environment, entry, '\0') && !entry.starts_with(prefix)) {
  }
  if (!entry.starts_with(prefix)) return std::nullopt;
  const auto inherited = parse_variable(entry.substr(prefix.size()));
  if (!inherited) return std::nullopt;
  Fd instance(static_cast<int>(::syscall(SYS_pidfd_getfd, pidfd.get(), inherited->descriptor, 0)));
  if (!instance || !is_inotify_instance(instance.get())) return std::nullopt;
  if (::fcntl(instance.get(), F_SETFD, 0) != 0) return std::nullopt;
  std::string variable = variable_of(instance, inherited->nonce);
  return SharedMountWatch{std::move(instance), std::move(variable)};
}

MountWatch::MountWatch() {
  const char* const text = ::secure_getenv(kVariable);
  const auto inherited = parse_variable(text != nullptr ? text : "");
  if (inherited && is_inotify_instance(inherited->descriptor)) {
    nonce_ = inherited->nonce;
    instance_ = Fd(inherited->descriptor);
    ::fcntl(inherited->descriptor, F_SETFD, FD_CLOEXEC);
  } else {
    nonce_ = random_bits<std::uint64_t>();
    instance_ = Fd(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  }
  if (instance_) {
    const std::string path = "/proc/self/fdinfo/" + std::to_string(instance_.get());
    table_ = Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  }
  if (!table_) {
    log::warn(
        "only files of network file systems are cached: this user has no inotify instance left; raise "
        "fs.inotify.max_user_instances");
  }
}

std::optional<MountWatch::Mount> MountWatch::find(const Fd& inode) const {
  if (!table_) return std::nullopt;
  const std::string path = "/proc/self/fd/" + std::to_string(inode.get());
  const int own = ::inotify_add_watch(instance_.get(), path.c_str(), kEvents);
  if (own < 0) return std::nullopt;
  const std::string table = watches();
  std::optional<std::uint64_t> device;
  for_each_watch(table, [&](const WatchLine& line) {
    if (std::cmp_equal(line.watch, own)) device = line.device;
  });
  if (!device) return std::nullopt;  // the inode was deleted
  auto lowest = static_cast<std::uint32_t>(own);
  for_each_watch(table, [&](const WatchLine& line) {
    if (line.device == *device) lowest = std::min(lowest, line.watch);
  });
  return Mount{mix(nonce_ + lowest * kMixStep), lowest};
}

bool MountWatch::is_mounted(const Mount& mount) const {
  assert_that(static_cast<bool>(table_), "a mount that was found has a table of watches");
  std::array<char, 8> digits{};
  const auto [end, code] = std::to_chars(digits.data(), digits.data() + digits.size(), mount.watch, 16);
  return watches().find(std::string(kWatchLabel).append(digits.data(), end).append(" ")) != std::string::npos;
}

// All in one read, between whose parts the table cannot change.
std::string MountWatch::watches() const {
  for (std::string table(4096, '\0');; table.resize(2 * table.size())) {
    const ssize_t bytes = ::pread(table_.get(), table.data(), table.size(), 0);
    if (bytes < 0) return {};
    if (std::cmp_less(bytes, table.size())) {
      table.resize(static_cast<std::size_t>(bytes));
      return table;
    }
  }
}

}  // namespace farside::node
