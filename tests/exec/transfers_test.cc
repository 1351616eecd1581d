// Copies inside one system call: sendfile, copy_file_range.
#include <cerrno>
#include <filesystem>

#include <sched.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>

#include "hooked.h"

namespace farside::hooked {
namespace {

File scratch(int flags = 0) { return File("scratch", O_RDWR | O_CREAT | O_TRUNC | flags); }

TEST(Sendfile, CopiesFromThePoolAndMovesBothOffsets) {
  const std::string expected = truth("binary");
  EXPECT_EQ(pooled_by([&] {
              const File from("binary");
              const File to = scratch();
              ASSERT_EQ(::lseek(from.get(), 10, SEEK_SET), 10);
              ASSERT_EQ(::sendfile(to.get(), from.get(), nullptr, 1'000'000), 1'000'000);
              ASSERT_EQ(::sendfile(to.get(), from.get(), nullptr, 10'000'000),
                        static_cast<ssize_t>(expected.size()) - 1'000'010);
              ASSERT_EQ(::sendfile(to.get(), from.get(), nullptr, 10'000'000), 0);
              EXPECT_EQ(::lseek(from.get(), 0, SEEK_CUR), static_cast<off_t>(expected.size()));
              EXPECT_TRUE(truth(to.get()) == expected.substr(10));
            }),
            expected.size() - 10);
}

TEST(Sendfile, LeavesTheOffsetWhenItIsGivenOne) {
  const File from("binary");
  const File to = scratch();
  off_t offset = 100'000;
  ASSERT_EQ(::sendfile(to.get(), from.get(), &offset, 70'000), 70'000);
  EXPECT_EQ(offset, 170'000);
  EXPECT_EQ(::lseek(from.get(), 0, SEEK_CUR), 0);
  EXPECT_TRUE(truth(to.get()) == truth("binary").substr(100'000, 70'000));
}

// A pipe takes as much as it holds; what it did not take is still to be sent.
TEST(Sendfile, CountsWhatTheOtherSideTook) {
  const std::string expected = truth("text");
  const File from("text");
  int pipe[2];
  ASSERT_EQ(::pipe2(pipe, O_NONBLOCK), 0);
  const File out(pipe[0]);
  const File in(pipe[1]);
  std::string received;
  std::string buffer(1 << 20, '\0');
  ssize_t sent = 0;
  while ((sent = ::sendfile(in.get(), from.get(), nullptr, 1 << 20)) > 0) {
    EXPECT_EQ(::lseek(from.get(), 0, SEEK_CUR), static_cast<off_t>(received.size()) + sent);
    ssize_t got = 0;
    while ((got = ::read(out.get(), buffer.data(), buffer.size())) > 0) {
      received.append(buffer, 0, static_cast<std::size_t>(got));
    }
  }
  EXPECT_EQ(sent, 0);
  EXPECT_TRUE(received == expected);
}

TEST(Sendfile, FailsAsTheKernelSays) {
  const File from("text");
  const File appending = scratch(O_APPEND);
  const File read_only("binary");
  EXPECT_TRUE(::sendfile(appending.get(), from.get(), nullptr, 10) == -1 && errno == EINVAL);
  EXPECT_TRUE(::sendfile(read_only.get(), from.get(), nullptr, 10) == -1 && errno == EBADF);
  int pipe[2];
  ASSERT_EQ(::pipe2(pipe, O_NONBLOCK), 0);
  const File out(pipe[0]);
  const File in(pipe[1]);
  while (::write(in.get(), "0123456789", 10) > 0) continue;
  EXPECT_TRUE(::sendfile(in.get(), from.get(), nullptr, 100'000) == -1 && errno == EAGAIN);
  EXPECT_EQ(::lseek(from.get(), 0, SEEK_CUR), 0);
}

TEST(CopyFileRange, CopiesFromThePool) {
  const std::string expected = truth("binary");
  EXPECT_EQ(pooled_by([&] {
              const File from("binary");
              const File to = scratch();
              off_t from_offset = 1000;
              off_t to_offset = 50;
              ASSERT_EQ(::copy_file_range(from.get(), &from_offset, to.get(), &to_offset, 500'000, 0), 500'000);
              EXPECT_TRUE(from_offset == 501'000 && to_offset == 500'050);
              EXPECT_EQ(::lseek(from.get(), 0, SEEK_CUR) + ::lseek(to.get(), 0, SEEK_CUR), 0);
              EXPECT_TRUE(truth(to.get()).substr(50) == expected.substr(1000, 500'000));
              ASSERT_EQ(::copy_file_range(from.get(), nullptr, to.get(), nullptr, 100, 0), 100);
              EXPECT_EQ(::lseek(from.get(), 0, SEEK_CUR), 100);
              EXPECT_EQ(::lseek(to.get(), 0, SEEK_CUR), 100);
            }),
            500'100U);
}

TEST(CopyFileRange, FailsAsTheKernelSays) {
  const File from("text");
  const File appending = scratch(O_APPEND);
  EXPECT_TRUE(::copy_file_range(from.get(), nullptr, appending.get(), nullptr, 10, 0) == -1 && errno == EBADF);
  EXPECT_TRUE(::copy_file_range(from.get(), nullptr, appending.get(), nullptr, 10, 1) == -1 && errno == EINVAL);
}

// The kernel refuses, and the program reads instead.
TEST(CopyFileRange, IsTheKernelsAcrossFileSystems) {
  EXPECT_EQ(pooled_by([] {
              const File from("text");
              const File to(::memfd_create("elsewhere", MFD_CLOEXEC));
              const ssize_t copied = ::copy_file_range(from.get(), nullptr, to.get(), nullptr, 1000, 0);
              EXPECT_EQ(copied, ::syscall(SYS_copy_file_range, from.get(), nullptr, to.get(), nullptr, 1000, 0));
            }),
            0U);
}

/// An overlay over the files, in a mount namespace that this process has to itself from now on.
class Overlay {
 public:
  Overlay() {
    for (const std::string& name : {at_, upper_, work_}) std::filesystem::create_directories(name);
    const std::string layers = "lowerdir=" + path_of("") + ",upperdir=" + upper_ + ",workdir=" + work_;
    is_mounted_ = ::unshare(CLONE_NEWNS) == 0 && ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                  ::mount("overlay", at_.c_str(), "overlay", 0, layers.c_str()) == 0;
  }
  ~Overlay() {
    if (is_mounted_) ::umount2(at_.c_str(), MNT_DETACH);
    for (const std::string& name : {at_, upper_, work_}) std::filesystem::remove_all(name);
  }
  Overlay(const Overlay&) = delete;
  Overlay& operator=(const Overlay&) = delete;

  [[nodiscard]] bool is_mounted() const { return is_mounted_; }

 private:
  const std::string at_ = path_of("overlay");
  const std::string upper_ = path_of("../upper");
  const std::string work_ = path_of("../work");
  bool is_mounted_ = false;
};

// An overlay needs no device and no server. Reads of its files are served from the pool, copies are not.
TEST(CopyFileRange, IsTheKernelsWhereTheFileSystemMayCopyByItself) {
  const Overlay overlay;
  if (!overlay.is_mounted()) GTEST_SKIP() << "cannot mount an overlay: " << std::strerror(errno);
  const std::string expected = truth("binary");
  EXPECT_EQ(pooled_by([&] { EXPECT_TRUE(read_all(File("overlay/binary").get()) == expected); }), expected.size());
  EXPECT_EQ(pooled_by([&] {
              const File from("overlay/binary");
              const File to("overlay/copy", O_RDWR | O_CREAT | O_TRUNC);
              ASSERT_EQ(::copy_file_range(from.get(), nullptr, to.get(), nullptr, 100'000, 0), 100'000);
              EXPECT_TRUE(truth(to.get()) == expected.substr(0, 100'000));
            }),
            0U);
}

}  // namespace
}  // namespace farside::hooked
