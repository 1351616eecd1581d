#include "node/files/file_system.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace farside::node {
namespace {

Fd open_path(const std::string& path) { return Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)); }

// mountinfo(5): any number of optional fields stands before the separator.
TEST(MountLine, IsReadWithAnyNumberOfOptionalFields) {
  for (const std::string optional : {"", "shared:1 ", "shared:1 master:2 "}) {
    const std::string line = "36 35 98:0 /mnt1 /mnt2 rw,noatime " + optional + "- ext3 /dev/root rw,errors=continue";
    const auto mount = parse_mount_line(line);
    ASSERT_TRUE(mount) << line;
    EXPECT_EQ(mount->mount_id, 36U);
    EXPECT_EQ(mount->device, makedev(98, 0));
    EXPECT_EQ(mount->type, "ext3");
    EXPECT_EQ(mount->source, "/dev/root");
    EXPECT_EQ(mount->mount_point, "/mnt2");
    EXPECT_EQ(mount->options, "rw,errors=continue");
  }
}

TEST(MountLine, RefusesWhatIsNone) {
  EXPECT_FALSE(parse_mount_line(""));
  EXPECT_FALSE(parse_mount_line("x 35 98:0 / / rw - ext3 /dev/root rw"));
  EXPECT_FALSE(parse_mount_line("36 35 98 / / rw - ext3 /dev/root rw"));
  EXPECT_FALSE(parse_mount_line("36 35 98:0 / / rw ext3 /dev/root rw"));
}

// Hosts that mount the same export share its blocks, whatever device number each of them gave the mount.
TEST(FileSystemTag, OfANetworkFileSystemIsTheSameOnEveryHost) {
  EXPECT_EQ(file_system_tag("nfs4", "server:/home", "host-a 1"), file_system_tag("nfs4", "server:/home", "host-b 2"));
  EXPECT_NE(file_system_tag("nfs4", "server:/home", "host-a 1"), file_system_tag("nfs4", "server:/data", "host-a 1"));
}

// /dev/sda1 exists on every host; so does a FUSE mount called "data".
TEST(FileSystemTag, OfALocalFileSystemDiffersBetweenHosts) {
  for (const char* type : {"ext4", "fuse", "fuse.anything", "9p"}) {
    EXPECT_TRUE(file_system_tag(type, "data", "host-a 1")) << type;
    EXPECT_NE(file_system_tag(type, "data", "host-a 1"), file_system_tag(type, "data", "host-b 1")) << type;
    EXPECT_NE(file_system_tag(type, "data", "host-a 1"), file_system_tag(type, "data", "host-a 2")) << type;
  }
}

TEST(FileSystemTag, IsNotGivenToFilesWithoutAVersion) {
  for (const char* type : {"proc", "sysfs", "cgroup2", "tmpfs", "fusectl", "never heard of"}) {
    EXPECT_FALSE(file_system_tag(type, "none", "host 1")) << type;
  }
}

class FileSystemsOnDisk : public ::testing::Test {
 protected:
  FileSystemsOnDisk() {
    std::string pattern = std::filesystem::temp_directory_path() / "farside-fs-XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
    std::ofstream(directory_ / "file") << "twelve bytes";
    if (!file_systems_.identify(open_path(directory_ / "file"))) cacheable_ = false;
  }
  ~FileSystemsOnDisk() override { std::filesystem::remove_all(directory_); }

  std::filesystem::path directory_;
  FileSystems file_systems_;
  bool cacheable_ = true;  // not when the directory for temporary files lies in memory
};

TEST_F(FileSystemsOnDisk, AgreeAmongProcessesAndWithStat) {
  if (!cacheable_) GTEST_SKIP() << directory_ << " is on a file system that cannot be cached";
  const Fd file = open_path(directory_ / "file");
  const auto first = file_systems_.identify(file);
  struct stat status {};
  ASSERT_EQ(::fstat(file.get(), &status), 0);
  EXPECT_EQ(first->inode, status.st_ino);
  EXPECT_EQ(first->bytes, 12U);
  EXPECT_EQ(first->modified_ns, status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec);
  EXPECT_EQ(first->changed_ns, status.st_ctim.tv_sec * 1'000'000'000 + status.st_ctim.tv_nsec);
}

// The content may differ although name, inode and size are the same.
TEST_F(FileSystemsOnDisk, TellAChangedFileFromTheOldOne) {
  if (!cacheable_) GTEST_SKIP() << directory_ << " is on a file system that cannot be cached";
  const Fd file = open_path(directory_ / "file");
  const auto before = file_systems_.identify(file);
  // Setting the times stands for a write at another moment: writes within one tick of the clock are what the rule of
  // two seconds is for.
  ASSERT_EQ(::utimensat(AT_FDCWD, (directory_ / "file").c_str(), nullptr, 0), 0);
  const auto after = file_systems_.identify(file);
  ASSERT_TRUE(after);
  EXPECT_NE(before, after);
}

// A program in a container has its files through mounts that the node does not see.
TEST_F(FileSystemsOnDisk, KnowAFileFromAnotherMountNamespace) {
  if (!cacheable_) GTEST_SKIP() << directory_ << " is on a file system that cannot be cached";
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a mount namespace";
  Fd elsewhere;
  std::thread([&] {  // the namespace is that thread's alone, and goes with it
    ASSERT_EQ(::unshare(CLONE_NEWNS), 0);
    elsewhere = open_path(directory_ / "file");
  })
      .join();
  EXPECT_EQ(file_systems_.identify(elsewhere), file_systems_.identify(open_path(directory_ / "file")));
}

// There the table of mounts does not name the file system of the root, unless the root is a mount point.
TEST_F(FileSystemsOnDisk, KnowADiskFromWithinAChroot) {
  struct stat status {};
  ASSERT_EQ(::stat(directory_.c_str(), &status), 0);
  if (major(status.st_dev) == 0) GTEST_SKIP() << directory_ << " is not on a disk";
  if (::geteuid() != 0) GTEST_SKIP() << "only root can change its root";
  struct statx root {};
  ASSERT_EQ(::statx(AT_FDCWD, "/", 0, STATX_BASIC_STATS, &root), 0);
  if ((root.stx_attributes & STATX_ATTR_MOUNT_ROOT) == 0) GTEST_SKIP() << "all these tests are in such a chroot";
  std::filesystem::create_directories(directory_ / "proc");
  const auto identify_in_chroot = [&] {
    const bool entered =
        ::unshare(CLONE_NEWNS) == 0 && ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
        ::mount("proc", (directory_ / "proc").c_str(), "proc", 0, nullptr) == 0 && ::chroot(directory_.c_str()) == 0;
    std::_Exit(entered && FileSystems().identify(open_path("/file")) ? 0 : 1);
  };
  EXPECT_EXIT(identify_in_chroot(), ::testing::ExitedWithCode(0), "");
}

TEST_F(FileSystemsOnDisk, RefuseWhatIsNoRegularFileOnDisk) {
  EXPECT_FALSE(file_systems_.identify(open_path(directory_)));
  EXPECT_FALSE(file_systems_.identify(open_path("/dev/null")));
  EXPECT_FALSE(file_systems_.identify(open_path("/proc/self/status")));
  EXPECT_FALSE(file_systems_.identify(make_memfd("no file system", 4096)));
  EXPECT_FALSE(file_systems_.identify(Fd()));
}

}  // namespace
}  // namespace farside::node
