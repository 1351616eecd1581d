#include "net/local_socket.h"

#include <array>
#include <filesystem>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/socket.h"

namespace farside::team {
namespace {

/// Connected by a process of `user`, as the kernel tells its peer.
Fd connection_of(uid_t user) {
  EXPECT_EQ(::seteuid(user), 0);
  std::array<int, 2> ends{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  EXPECT_EQ(::seteuid(0), 0);
  ::close(ends[1]);
  return Fd(ends[0]);
}

TEST(LocalSocket, ServesItsUserAlone) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  constexpr uid_t kUser = 65534;
  const Fd own = connection_of(kUser);
  const Fd root = connection_of(0);
  const Fd other = connection_of(kUser - 1);
  ASSERT_EQ(::seteuid(kUser), 0);
  const bool serves_own = net::is_of_this_user(own);
  const bool serves_root = net::is_of_this_user(root);
  const bool serves_other = net::is_of_this_user(other);
  ASSERT_EQ(::seteuid(0), 0);
  EXPECT_TRUE(serves_own);
  EXPECT_FALSE(serves_root) << "files that only root may read would come into memory of this user";
  EXPECT_FALSE(serves_other);
}

TEST(LocalSocket, IsThisUsersAloneFromTheBeginning) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("farside-test-socket-" + std::to_string(::getpid()));
  const mode_t mask = ::umask(0);
  const Fd socket = net::listen_on(path.string());
  struct stat found {};
  EXPECT_EQ(::stat(path.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777U, mode_t{S_IRUSR | S_IWUSR});
  ::unlink(path.c_str());
  ::umask(mask);
}

}  // namespace
}  // namespace farside::team
