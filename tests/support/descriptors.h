// descriptors.h — what a process has open and in memory, for tests that look for leaks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "farside/base/fd.h"

namespace farside::test {

/// Of this process, or the one with that pid. Of its own, one is the look itself.
inline std::size_t open_descriptors(const std::string& process = "self") {
  const std::filesystem::directory_iterator all("/proc/" + process + "/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

/// Takes every descriptor that this process may still open.
inline std::vector<Fd> take_descriptors() {
  Fd last(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const auto limit = static_cast<rlim_t>(last.get()) + 64;
  const rlimit few{limit, limit};
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<Fd> taken;
  while (Fd file{::dup(last.get())}) taken.push_back(std::move(file));
  taken.push_back(std::move(last));
  return taken;
}

/// Lets a process (0: this one) open no descriptor while it lives.
class NoDescriptorIsFree {
 public:
  explicit NoDescriptorIsFree(pid_t process = 0) : process_(process) {
    EXPECT_EQ(::prlimit(process_, RLIMIT_NOFILE, nullptr, &before_), 0);
    const rlimit few{3, before_.rlim_max};  // fewer than are open
    EXPECT_EQ(::prlimit(process_, RLIMIT_NOFILE, &few, nullptr), 0);
  }
  ~NoDescriptorIsFree() { EXPECT_EQ(::prlimit(process_, RLIMIT_NOFILE, &before_, nullptr), 0); }
  NoDescriptorIsFree(const NoDescriptorIsFree&) = delete;
  NoDescriptorIsFree& operator=(const NoDescriptorIsFree&) = delete;

 private:
  pid_t process_;
  rlimit before_{};
};

/// The files in /dev/shm that farside, or UCX under it, can have left; none where it does not exist. Other programs'
/// files come and go during a test, and so do the directories of other tests of farside.
inline std::set<std::string> shared_memory_files() {
  std::set<std::string> names;
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", missing)) {
    const std::string name = entry.path().filename();
    const bool is_of_a_test = name.starts_with("farside-test-") || name.starts_with("farside-fuzz-");
    if (!is_of_a_test && (name.starts_with("farside") || name.starts_with("ucx_shm"))) names.insert(name);
  }
  return names;
}

/// In a bare chroot /dev/shm may be a plain directory, or not be there.
inline bool is_mount_point(const std::filesystem::path& path) {
  struct stat own {};
  struct stat above {};
  return ::stat(path.c_str(), &own) == 0 && ::stat((path / "..").c_str(), &above) == 0 && own.st_dev != above.st_dev;
}

/// There are none where devpts is not mounted.
inline bool has_pseudo_terminals() {
  const Fd terminal(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  return static_cast<bool>(terminal);
}

inline std::uint64_t resident_bytes(const std::string& process = "self") {
  std::ifstream file("/proc/" + process + "/statm");
  std::uint64_t pages = 0;
  file >> pages >> pages;  // of the address space, then resident
  return pages * static_cast<std::uint64_t>(::getpagesize());
}

/// Expects fewer than `bytes` to be resident; nothing under a sanitizer, which keeps freed memory (up to 256 MiB) and
/// shadows.
inline void expect_resident_below([[maybe_unused]] std::uint64_t bytes,
                                  [[maybe_unused]] const std::string& process = "self") {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(resident_bytes(process), bytes);
#endif
}

}  // namespace farside::test
