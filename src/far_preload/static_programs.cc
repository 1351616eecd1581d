#include "static_programs.h"

#include <atomic>
#include <climits>
#include <cstdint>
#include <cstring>
#include <iterator>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/program_file.h"
#include "cache_preload/system_call.h"
#include "connection.h"
#include "ranges.h"

namespace farside::far_preload {

namespace {

using cache_preload::system_call;

// Programs that were warned of, in a page that forked children share: a shell forks for each program.
using Known = std::atomic<std::uint64_t>;
constexpr std::size_t kKnown = kPageBytes / sizeof(Known);
constinit Known* known = nullptr;

// Returns whether it was not known before. When the page is full, nothing is new.
bool is_new(std::uint64_t program) {
  for (std::size_t i = 0; i < kKnown; ++i) {
    std::uint64_t seen = 0;
    if (known[i].compare_exchange_strong(seen, program)) return true;
    if (seen == program) return false;
  }
  return false;
}

// Not 0. Two programs that share it are warned of once.
std::uint64_t number_of(const Descriptor& file) {
  struct stat64 about {};
  system_call(SYS_fstat, file.get(), &about);
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;
  return ((about.st_dev * kOdd) ^ about.st_ino) | std::uint64_t{1} << 63U;
}

void warn(const char* path) {
  const char* const words[] = {"farside far: ", path, " is linked statically: it has no far memory\n"};
  iovec parts[std::size(words)];
  for (std::size_t i = 0; i < std::size(words); ++i) parts[i] = {const_cast<char*>(words[i]), std::strlen(words[i])};
  system_call(SYS_writev, STDERR_FILENO, parts, std::size(words));
}

Descriptor open_at(int directory, const char* path, int flags) {
  if ((flags & AT_EMPTY_PATH) != 0 && path[0] == '\0') {
    return Descriptor(system_call(SYS_fcntl, directory, F_DUPFD_CLOEXEC, 0));
  }
  return Descriptor(system_call(SYS_openat, directory, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
}

/// The first line of a script, without "#!": the path of its interpreter. The kernel looks no further than this,
/// either.
class Interpreter {
 public:
  explicit Interpreter(const Descriptor& file) {
    const long got = system_call(SYS_pread64, file.get(), line_, sizeof line_ - 1, 0);
    if (got < 2 || line_[0] != '#' || line_[1] != '!') return;
    char* begin = line_ + 2;
    while (*begin == ' ' || *begin == '\t') ++begin;
    begin[std::strcspn(begin, " \t\n")] = '\0';
    path_ = begin;
  }
  /// Null: the file is no script.
  [[nodiscard]] const char* path() const { return path_; }

 private:
  char line_[256]{};
  const char* path_ = nullptr;
};

// Scripts may be each other's interpreters: the kernel follows four, and so does this.
void look_at(const Descriptor& file, const char* path, int scripts_left = 4) {
  if (!file) return;
  const auto read_at = [&file](std::uint64_t offset, void* into, std::size_t bytes) {
    return system_call(SYS_pread64, file.get(), into, bytes, offset) == static_cast<long>(bytes);
  };
  if (is_linked_statically(read_at) && is_new(number_of(file))) warn(path);
  const Interpreter interpreter(file);
  if (interpreter.path() == nullptr || scripts_left == 0) return;
  look_at(open_at(AT_FDCWD, interpreter.path(), 0), interpreter.path(), scripts_left - 1);
}

}  // namespace

void watch_for_static_programs() {
  const long page = system_call(SYS_mmap, 0, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page > 0) known = reinterpret_cast<Known*>(page);  // NOLINT(performance-no-int-to-ptr): zeros
}

void warn_if_static(const char* path) { warn_if_static_at(AT_FDCWD, path, 0); }

void warn_if_static_in_path(const char* name) {
  if (known == nullptr) return;
  if (std::strchr(name, '/') != nullptr) return warn_if_static(name);
  const char* directories = nullptr;
  for (char** entry = environ; entry != nullptr && *entry != nullptr && directories == nullptr; ++entry) {
    if (std::strncmp(*entry, "PATH=", 5) == 0) directories = *entry + 5;
  }
  if (directories == nullptr) directories = "/bin:/usr/bin";  // as execvp has it
  const std::size_t name_bytes = std::strlen(name);
  for (const char* next = directories; next != nullptr;) {
    const char* const directory = next;
    const char* const end = strchrnul(directory, ':');
    next = *end == ':' ? end + 1 : nullptr;
    const auto bytes = static_cast<std::size_t>(end - directory);
    char path[PATH_MAX];
    if (bytes + name_bytes + 2 > sizeof path) continue;
    std::memcpy(path, directory, bytes);
    std::size_t at = bytes;
    if (bytes != 0) path[at++] = '/';  // an empty one is the working directory
    std::memcpy(path + at, name, name_bytes + 1);
    if (system_call(SYS_faccessat, AT_FDCWD, path, X_OK) == 0) return warn_if_static(path);
  }
}

void warn_if_static_at(int directory, const char* path, int flags) {
  if (known != nullptr) look_at(open_at(directory, path, flags), path[0] == '\0' ? "an open file" : path);
}

}  // namespace farside::far_preload
