// hooked.h — what tests stand on that run under the preload library themselves.
//
// hooked_test.py starts them, with files that may be cached in FARSIDE_FILES. What a file really holds they learn by
// mapping it: mappings are the kernel's.
#pragma once

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "farside/cache/node_socket.h"

namespace farside::hooked {

inline std::string path_of(const std::string& name) { return std::string(std::getenv("FARSIDE_FILES")) + "/" + name; }

/// A descriptor of the test's own. It is closed by the hooked close.
class File {
 public:
  explicit File(int fd) : fd_(fd) { EXPECT_GE(fd, 0) << std::strerror(errno); }
  explicit File(const std::string& name, int flags = O_RDONLY) : File(::open(path_of(name).c_str(), flags, 0600)) {}
  File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

/// What the file behind `fd` holds now.
inline std::string truth(int fd) {
  struct stat found {};
  ::fstat(fd, &found);
  const auto bytes = static_cast<std::size_t>(found.st_size);
  void* const view = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  EXPECT_NE(view, MAP_FAILED) << std::strerror(errno);
  std::string content(static_cast<const char*>(view), bytes);
  ::munmap(view, bytes);
  return content;
}

inline std::string truth(const std::string& name) { return truth(File(name).get()); }

/// Everything from the offset on, in reads of `step` bytes.
inline std::string read_all(int fd, std::size_t step = 100'000) {
  std::string content;
  std::string buffer(step, '\0');
  ssize_t got = 0;
  while ((got = ::read(fd, buffer.data(), step)) > 0) content.append(buffer, 0, static_cast<std::size_t>(got));
  EXPECT_EQ(got, 0) << std::strerror(errno);
  return content;
}

/// How many bytes programs have copied out of the node's slots.
inline std::uint64_t pooled_bytes() {
  const File node(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  std::string(std::getenv("FARSIDE_NODE_SOCKET")).copy(address.sun_path, sizeof address.sun_path - 1);
  cache::node_socket::Request request{};
  request.kind = cache::node_socket::RequestKind::status;
  cache::node_socket::StatusReply reply{};
  EXPECT_EQ(::connect(node.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(::send(node.get(), &request, sizeof request, 0), static_cast<ssize_t>(sizeof request));
  EXPECT_EQ(::recv(node.get(), &reply, sizeof reply, 0), static_cast<ssize_t>(sizeof reply));
  return reply.hit_bytes_local;
}

/// Does `action` twice, and returns how many bytes the second time came out of the slots.
inline std::uint64_t pooled_by(const std::function<void()>& action) {
  action();
  const std::uint64_t before = pooled_bytes();
  action();
  return pooled_bytes() - before;
}

/// Runs `action` in a child and expects it to find nothing wrong.
inline void in_child(const std::function<void()>& action) {
  const pid_t child = ::fork();
  if (child == 0) {
    action();
    ::_exit(testing::Test::HasFailure() ? EXIT_FAILURE : EXIT_SUCCESS);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace farside::hooked
