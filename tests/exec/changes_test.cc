// What a descriptor's number means may change, and so may the file behind it.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include <sys/file.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "hooked.h"

namespace farside::hooked {
namespace {

struct Way {
  const char* name;
  void (*reuse)(int number, int file);  // makes `number` stand for what `file` does
};

template <int (*kFree)(int)>
void free_and_reuse(int number, int file) {
  kFree(number);
  ASSERT_EQ(::fcntl(file, F_DUPFD, number), number);
}

const Way kWays[] = {
    {"close", free_and_reuse<::close>},
    {"fclose", free_and_reuse<[](int fd) { return std::fclose(::fdopen(fd, "r")); }>},
    {"close_range", free_and_reuse<[](int fd) { return ::close_range(static_cast<unsigned>(fd), 700, 0); }>},
    {"closefrom", free_and_reuse<[](int fd) { return ::closefrom(fd), 0; }>},
    {"syscall_close", free_and_reuse<[](int fd) { return static_cast<int>(::syscall(SYS_close, fd)); }>},
    {"syscall_close_range",
     free_and_reuse<[](int fd) { return static_cast<int>(::syscall(SYS_close_range, fd, ~0U, 0)); }>},
    {"dup2", [](int number, int file) { ::dup2(file, number); }},
    {"dup3", [](int number, int file) { ::dup3(file, number, O_CLOEXEC); }},
    {"syscall_dup2", [](int number, int file) { ::syscall(SYS_dup2, file, number); }},
    {"syscall_dup3", [](int number, int file) { ::syscall(SYS_dup3, file, number, 0); }},
    {"freopen",
     [](int number, int file) {
       FILE* const stream = ::fdopen(number, "r");
       const std::string path = "/proc/self/fd/" + std::to_string(file);
       EXPECT_EQ(std::freopen(path.c_str(), "r", stream), stream);
     }},
};

class Reuse : public testing::TestWithParam<Way> {};

TEST_P(Reuse, ReadsTheNewFile) {
  constexpr int kNumber = 600;
  const File old_file("binary");
  const File new_file("text");
  ASSERT_EQ(::fcntl(old_file.get(), F_DUPFD, kNumber), kNumber);
  ASSERT_TRUE(read_all(kNumber) == truth("binary"));
  GetParam().reuse(kNumber, new_file.get());
  const File reused(kNumber);
  EXPECT_TRUE(read_all(kNumber) == truth("text"));
}

INSTANTIATE_TEST_SUITE_P(By, Reuse, testing::ValuesIn(kWays), [](const auto& way) { return way.param.name; });

// Closes the number so that no hook sees it, as io_uring does.
void close_unseen(int number) {
  long answer = SYS_close;
  asm volatile("syscall" : "+a"(answer) : "D"(long{number}) : "rcx", "r11", "memory");
}

struct Opening {
  const char* name;
  int (*open)(const std::string& path, int number);  // under the number, the lowest that is free
};

const Opening kOpenings[] = {
    {"open", [](const std::string& path, int) { return ::open(path.c_str(), O_RDONLY); }},
    {"openat", [](const std::string& path, int) { return ::openat(AT_FDCWD, path.c_str(), O_RDONLY); }},
    {"fopen", [](const std::string& path, int) { return ::fileno(std::fopen(path.c_str(), "r")); }},
    {"dup",
     [](const std::string& path, int number) {
       const int high = ::fcntl(::open(path.c_str(), O_RDONLY), F_DUPFD, number + 100);
       close_unseen(number);
       return ::dup(high);
     }},
    {"F_DUPFD",
     [](const std::string& path, int number) {
       const int high = ::fcntl(::open(path.c_str(), O_RDONLY), F_DUPFD, number + 100);
       close_unseen(number);
       return ::fcntl(high, F_DUPFD, number);
     }},
    {"syscall_openat", [](const std::string& path,
                          int) { return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path.c_str(), O_RDONLY)); }},
};

class UnseenClose : public testing::TestWithParam<Opening> {};

TEST_P(UnseenClose, IsMadeUpForByTheNextOpen) {
  in_child([] {
    const int number = File("binary").release();
    EXPECT_TRUE(read_all(number) == truth("binary"));
    EXPECT_EQ(::lseek(number, 0, SEEK_SET), 0);
    char byte = 0;
    EXPECT_EQ(::read(number, &byte, 1), 1);
    close_unseen(number);
    EXPECT_EQ(GetParam().open(path_of("text"), number), number);
    EXPECT_TRUE(read_all(number) == truth("text"));
  });
}

INSTANTIATE_TEST_SUITE_P(By, UnseenClose, testing::ValuesIn(kOpenings), [](const auto& way) { return way.param.name; });

// The library's own descriptors lie high, so a program finds the numbers that it expects.
TEST(Descriptors, KeepTheirNumbers) {
  const int lowest = File("text").get();
  const File file("binary");
  EXPECT_EQ(file.get(), lowest);
  read_all(file.get());
  const File second("text");
  const File third("text");
  EXPECT_EQ(second.get(), lowest + 1);
  EXPECT_EQ(third.get(), lowest + 2);
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
    EXPECT_EQ(pooled_by([&] {
                EXPECT_EQ(::lseek(file.get(), 0, SEEK_SET), 0);
                EXPECT_TRUE(read_all(file.get()) == expected);
              }),
              expected.size());
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
    const ssize_t got = ::pread(STDIN_FILENO, &byte, 1, 0);
    EXPECT_EQ(::write(pipe[1], &got, sizeof got), static_cast<ssize_t>(sizeof got));
  });
  ssize_t got = -1;
  EXPECT_EQ(::read(pipe[0], &got, sizeof got), static_cast<ssize_t>(sizeof got));
  EXPECT_EQ(got, 0);
  ::close(pipe[0]);
  ::close(pipe[1]);
}

// The node's memory would make a program's core as large as the pool.
TEST(Cores, HoldNothingOfTheNodesMemory) {
  read_all(File("text").get());
  std::ifstream table("/proc/self/smaps");
  int mappings = 0;
  bool is_shared = false;
  for (std::string line; std::getline(table, line);) {
    if (line.find("/memfd:") != std::string::npos) is_shared = true;
    if (!is_shared || !line.starts_with("VmFlags:")) continue;
    EXPECT_NE((line + ' ').find(" dd "), std::string::npos) << line;
    ++mappings;
    is_shared = false;
  }
  EXPECT_GE(mappings, 2);
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

// Its time stamps do not yet tell this version from the next.
TEST(Passing, IsWhatChangedJustNow) {
  std::ofstream(path_of("fresh")) << "fresh";
  EXPECT_EQ(pooled_by([] { EXPECT_EQ(read_all(File("fresh").get()), "fresh"); }), 0U);
  std::filesystem::remove(path_of("fresh"));
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

// With a lock, all that was written before is seen. The writer is another process.
struct Lock {
  const char* name;
  int (*take)(int fd);
};

template <int kCommand>
int lock_all(int fd) {
  struct flock range {};
  range.l_type = F_RDLCK;
  range.l_whence = SEEK_SET;
  return ::fcntl(fd, kCommand, &range);
}

const Lock kLocks[] = {
    {"flock", [](int fd) { return ::flock(fd, LOCK_SH); }},
    {"fcntl", lock_all<F_SETLK>},
    {"fcntl_waiting", lock_all<F_SETLKW>},
    {"ofd", lock_all<F_OFD_SETLK>},
    {"syscall", [](int fd) { return static_cast<int>(::syscall(SYS_flock, fd, LOCK_SH)); }},
    {"lockf_of_another_file",
     [](int) {
       const File lock("a lock", O_RDWR | O_CREAT);
       return ::lockf(lock.get(), F_LOCK, 0);
     }},
};

// Ways in which a process opens a file that it writes.
struct OwnWriter {
  const char* name;
  void (*write)(const std::string& path);  // "!" over the file's first byte
};

void write_by(int fd) {
  EXPECT_EQ(::pwrite(fd, "!", 1, 0), 1);
  ::close(fd);
}

const OwnWriter kOwnWriters[] = {
    {"open", [](const std::string& path) { write_by(::open(path.c_str(), O_WRONLY)); }},
    {"openat", [](const std::string& path) { write_by(::openat(AT_FDCWD, path.c_str(), O_RDWR)); }},
    {"syscall_openat",
     [](const std::string& path) {
       write_by(static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path.c_str(), O_RDWR)));
     }},
    {"fopen",
     [](const std::string& path) {
       FILE* const stream = std::fopen(path.c_str(), "r+");
       std::fputc('!', stream);
       std::fclose(stream);
     }},
    {"freopen",
     [](const std::string& path) {
       FILE* const stream = std::freopen(path.c_str(), "r+", std::fopen(path.c_str(), "r"));
       std::fputc('!', stream);
       std::fclose(stream);
     }},
    {"ofstream", [](const std::string& path) { std::ofstream(path, std::ios::in | std::ios::out) << '!'; }},
};

// Each has a file of its own, which settles before all tests.
class Fresh : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    for (const Lock& lock : kLocks) std::filesystem::copy_file(path_of("text"), path_of(lock.name));
    for (const OwnWriter& writer : kOwnWriters) {
      std::filesystem::copy_file(path_of("text"), path_of(std::string("own ") + writer.name));
    }
    std::filesystem::copy_file(path_of("text"), path_of("cut"));
    std::this_thread::sleep_for(std::chrono::milliseconds(2200));
  }
};

TEST_F(Fresh, IsWhatIsReadUnderALock) {
  for (const Lock& lock : kLocks) {
    SCOPED_TRACE(lock.name);
    const File file(lock.name);
    char byte = 0;
    ASSERT_EQ(::pread(file.get(), &byte, 1, 0), 1);
    ASSERT_NE(byte, '!');
    in_child([&] { write_by(::open(path_of(lock.name).c_str(), O_WRONLY)); });
    ASSERT_EQ(lock.take(file.get()), 0) << std::strerror(errno);
    ASSERT_EQ(::pread(file.get(), &byte, 1, 0), 1);
    EXPECT_EQ(byte, '!');
  }
}

TEST_F(Fresh, IsWhatTheProcessItselfWrote) {
  for (const OwnWriter& writer : kOwnWriters) {
    SCOPED_TRACE(writer.name);
    const std::string name = std::string("own ") + writer.name;
    const File file(name);
    char byte = 0;
    ASSERT_EQ(::pread(file.get(), &byte, 1, 0), 1);
    ASSERT_NE(byte, '!');
    writer.write(path_of(name));
    ASSERT_EQ(::pread(file.get(), &byte, 1, 0), 1);
    EXPECT_EQ(byte, '!');
  }
}

TEST_F(Fresh, IsALengthThatTheProcessItselfSet) {
  const File file("cut");
  char byte = 0;
  ASSERT_EQ(::pread(file.get(), &byte, 1, 1000), 1);
  ASSERT_EQ(::truncate(path_of("cut").c_str(), 1000), 0);
  EXPECT_EQ(::pread(file.get(), &byte, 1, 1000), 0);
}

}  // namespace
}  // namespace farside::hooked
