// What a descriptor's number means may change, and so may the file behind it.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include <sys/resource.h>
#include <sys/syscall.h>

#include "hooked.h"

namespace farside::hooked {
namespace {

struct Way {
  const char* name;
  void (*free_number)(int fd);  // so that it can be used again
};

class Reuse : public testing::TestWithParam<Way> {};

TEST_P(Reuse, ReadsTheNewFile) {
  constexpr int kNumber = 600;
  const File old_file("binary");
  const File new_file("text");
  ASSERT_EQ(::fcntl(old_file.get(), F_DUPFD, kNumber), kNumber);
  ASSERT_EQ(::lseek(kNumber, 0, SEEK_SET), 0);
  ASSERT_TRUE(read_all(kNumber) == truth("binary"));
  GetParam().free_number(kNumber);
  ASSERT_EQ(::fcntl(new_file.get(), F_DUPFD, kNumber), kNumber);
  const File reused(kNumber);
  EXPECT_TRUE(read_all(kNumber) == truth("text"));
}

void replace_and_close(int fd, int (*replace)(int from, int to)) {
  const File empty(::open("/dev/null", O_RDONLY));
  char byte = 0;
  EXPECT_EQ(replace(empty.get(), fd), fd);
  EXPECT_EQ(::read(fd, &byte, 1), 0);
  EXPECT_EQ(::close(fd), 0);
}

INSTANTIATE_TEST_SUITE_P(
    After, Reuse,
    testing::Values(
        Way{"close", [](int fd) { ::close(fd); }}, Way{"fclose", [](int fd) { std::fclose(::fdopen(fd, "r")); }},
        Way{"freopen",
            [](int fd) {
              FILE* const stream = std::freopen("/dev/null", "r", ::fdopen(fd, "r"));
              EXPECT_EQ(::fileno(stream), fd);
              char byte = 0;
              EXPECT_EQ(::read(fd, &byte, 1), 0);
              std::fclose(stream);
            }},
        Way{"close_range", [](int fd) { ::close_range(static_cast<unsigned>(fd), 700, 0); }},
        Way{"closefrom", [](int fd) { ::closefrom(fd); }}, Way{"dup2", [](int fd) { replace_and_close(fd, ::dup2); }},
        Way{"dup3",
            [](int fd) { replace_and_close(fd, [](int from, int to) { return ::dup3(from, to, O_CLOEXEC); }); }},
        Way{"syscall_close", [](int fd) { ::syscall(SYS_close, fd); }},
        Way{"syscall_dup2",
            [](int fd) {
              replace_and_close(fd, [](int from, int to) { return static_cast<int>(::syscall(SYS_dup2, from, to)); });
            }},
        Way{"syscall_close_range", [](int fd) { ::syscall(SYS_close_range, fd, ~0U, 0); }}),
    [](const auto& way) { return way.param.name; });

// The library's own descriptors lie high, so a program finds the numbers that it expects.
TEST(Descriptors, KeepTheirNumbers) {
  const int lowest = File("text").get();
  const File file("binary");
  EXPECT_EQ(file.get(), lowest);
  read_all(file.get());
  EXPECT_EQ(File("text").get(), lowest + 1);
}

// A program may close every descriptor, ours too, and open its own under the same numbers.
TEST(Descriptors, SurviveTheClosingOfAll) {
  in_child([] {
    const std::string expected = truth("almost");
    File file("almost");
    char byte = 0;
    EXPECT_EQ(::read(file.get(), &byte, 1), 1);
    for (int fd = 3; fd < 1024; ++fd) {
      if (fd != file.get()) ::close(fd);
    }
    const rlimit many{4096, 4096};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &many), 0);
    std::vector<File> own;
    for (int i = 0; i < 1024; ++i) own.emplace_back("own", O_RDWR | O_CREAT | O_TRUNC);
    EXPECT_TRUE(byte + read_all(file.get()) == expected);
    EXPECT_EQ(::lseek(own.front().get(), 0, SEEK_END), 0);
  });
}

// A vforked child shares our memory but has descriptors of its own.
TEST(Descriptors, OfAVforkedChildAreItsOwn) {
  const File file("binary");
  const File other("text");
  char byte = 0;
  ASSERT_EQ(::read(file.get(), &byte, 1), 1);
  static char seen;  // NOLINT: the child writes it
  const pid_t child = ::vfork();
  if (child == 0) {
    ::dup2(other.get(), file.get());
    ::_exit(::pread(file.get(), &seen, 1, 0) == 1 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(seen, truth("text").front());
  EXPECT_TRUE(byte + read_all(file.get()) == truth("binary"));
}

// daemon() replaces the standard streams inside libc.
TEST(Descriptors, AreFoundOutAnewInADaemon) {
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  in_child([&] {
    const File file("binary");
    ::dup2(file.get(), STDIN_FILENO);
    char byte = 0;
    EXPECT_EQ(::read(STDIN_FILENO, &byte, 1), 1);
    EXPECT_EQ(::daemon(1, 0), 0);
    const ssize_t got = ::read(STDIN_FILENO, &byte, 1);
    EXPECT_EQ(::write(pipe[1], &got, sizeof got), static_cast<ssize_t>(sizeof got));
  });
  ssize_t got = -1;
  EXPECT_EQ(::read(pipe[0], &got, sizeof got), static_cast<ssize_t>(sizeof got));
  EXPECT_EQ(got, 0);
  ::close(pipe[0]);
  ::close(pipe[1]);
}

TEST(Names, MayHoldAnything) {
  const std::string expected = truth("tree/two\nlines: and a colon");
  EXPECT_EQ(pooled_by([&] { EXPECT_EQ(read_all(File("tree/two\nlines: and a colon").get()), expected); }),
            expected.size());
}

TEST(Passing, IsWhatMayBeWritten) {
  EXPECT_EQ(pooled_by([] { read_all(File("binary", O_RDWR).get()); }), 0U);
}

TEST(Passing, IsWhatLiesElsewhere) {
  EXPECT_EQ(pooled_by([] { read_all(File(::open("/proc/self/exe", O_RDONLY)).get()); }), 0U);
}

// Files that change under an open descriptor. The copies are made, and settle, once.
class Changed : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    for (const char* name : {"truncated", "replaced", "overwritten", "growing"}) {
      std::filesystem::copy_file(path_of("text"), path_of(name));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2200));
  }
  static void TearDownTestSuite() {
    for (const char* name : {"truncated", "replaced", "overwritten", "growing"}) std::filesystem::remove(path_of(name));
  }
  // A descriptor of the file, of which a byte was read.
  static File used(const std::string& name) {
    File file(name);
    char byte = 0;
    EXPECT_EQ(::pread(file.get(), &byte, 1, 0), 1);
    return file;
  }
};

TEST_F(Changed, ReplacedFileStaysTheOneThatWasOpened) {
  const File file = used("replaced");
  const std::string expected = truth("replaced");
  std::ofstream(path_of("new")) << "new";
  std::filesystem::rename(path_of("new"), path_of("replaced"));
  EXPECT_TRUE(read_all(file.get()) == expected);
  EXPECT_EQ(read_all(File("replaced").get()), "new");
}

// What was there when the file was opened, or what is there now; never anything else.
TEST_F(Changed, TruncatedFileEndsSomewhereRight) {
  const File file = used("truncated");
  const std::string expected = truth("truncated");
  std::filesystem::resize_file(path_of("truncated"), 100'000);
  const std::string found = read_all(file.get());
  EXPECT_GE(found.size(), 100'000U);
  EXPECT_TRUE(expected.starts_with(found));
  EXPECT_EQ(read_all(File("truncated").get()).size(), 100'000U);
}

TEST_F(Changed, GrowingFileIsFollowed) {
  const File file = used("growing");
  const std::string expected = truth("growing");
  EXPECT_TRUE(read_all(file.get()) == expected);
  std::ofstream(path_of("growing"), std::ios::app) << "more";
  EXPECT_EQ(read_all(file.get()), "more");
}

TEST_F(Changed, OverwrittenFileIsNoticedSoon) {
  const File file = used("overwritten");
  const File writer("overwritten", O_WRONLY);
  ASSERT_EQ(::pwrite(writer.get(), "!", 1, 0), 1);
  EXPECT_EQ(read_all(File("overwritten").get()).front(), '!');  // a new open sees it at once
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  char byte = 0;
  while (byte != '!' && std::chrono::steady_clock::now() < deadline) ASSERT_EQ(::pread(file.get(), &byte, 1, 0), 1);
  EXPECT_EQ(byte, '!');
}

}  // namespace
}  // namespace farside::hooked
