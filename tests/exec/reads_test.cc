// Each function that reads gives what the kernel would have given, out of the pool.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cwchar>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>

#include <sys/uio.h>

#include "hooked.h"

namespace farside::hooked {
namespace {

class ReadSizes : public testing::TestWithParam<std::size_t> {};

TEST_P(ReadSizes, GiveTheWholeFileFromThePool) {
  const std::string expected = truth("binary");
  EXPECT_EQ(pooled_by([&] {
              const File file("binary");
              EXPECT_TRUE(read_all(file.get(), GetParam()) == expected);
              EXPECT_EQ(::lseek(file.get(), 0, SEEK_CUR), static_cast<off_t>(expected.size()));
            }),
            expected.size());
}
INSTANTIATE_TEST_SUITE_P(Read, ReadSizes, testing::Values(99, 4096, 65536, 65537, 1 << 20, 1 << 24));

TEST(Read, StartsWhereTheDescriptorStands) {
  const std::string expected = truth("text");
  const File file("text");
  std::string buffer(1000, '\0');
  for (const off_t offset : {70'000, 5, 65'536, 1}) {
    ASSERT_EQ(::lseek(file.get(), offset, SEEK_SET), offset);
    ASSERT_EQ(::read(file.get(), buffer.data(), buffer.size()), 1000);
    EXPECT_EQ(buffer, expected.substr(static_cast<std::size_t>(offset), 1000));
    EXPECT_EQ(::lseek(file.get(), 0, SEEK_CUR), offset + 1000);
  }
}

// The remembered offset is far from the end when a duplicate of the descriptor was moved close to it, and the reverse.
TEST(Read, IsCutAtTheEndOnly) {
  const std::string expected = truth("text");
  const File file("text");
  const File other(::dup(file.get()));
  std::string buffer(1000, '\0');
  ASSERT_EQ(::read(file.get(), buffer.data(), buffer.size()), 1000);
  ASSERT_GT(::lseek(other.get(), -10, SEEK_END), 0);
  EXPECT_EQ(::read(file.get(), buffer.data(), buffer.size()), 10);
  EXPECT_EQ(::read(file.get(), buffer.data(), buffer.size()), 0);
  EXPECT_EQ(::lseek(file.get(), 0, SEEK_CUR), static_cast<off_t>(expected.size()));
  ASSERT_EQ(::lseek(other.get(), 0, SEEK_SET), 0);
  EXPECT_EQ(::read(file.get(), buffer.data(), buffer.size()), 1000);
  EXPECT_EQ(buffer, expected.substr(0, 1000));
}

TEST(Pread, GivesAnyRangeAndLeavesTheOffset) {
  const std::string expected = truth("binary");
  const File file("binary");
  std::string buffer(200'000, '\0');
  std::minstd_rand dice(1);  // NOLINT(cert-msc51-cpp): the same ranges each time
  for (int i = 0; i < 300; ++i) {
    const std::size_t offset = dice() % (expected.size() + 1000);
    const std::size_t bytes = dice() % buffer.size();
    const std::string part = offset < expected.size() ? expected.substr(offset, bytes) : "";
    ASSERT_EQ(::pread(file.get(), buffer.data(), bytes, static_cast<off_t>(offset)), static_cast<ssize_t>(part.size()));
    ASSERT_EQ(buffer.compare(0, part.size(), part), 0);
  }
  EXPECT_EQ(::lseek(file.get(), 0, SEEK_CUR), 0);
}

TEST(VectorReads, FillTheirPartsInOrder) {
  const std::string expected = truth("binary");
  EXPECT_EQ(pooled_by([&] {
              const File file("binary");
              std::string first(100, '\0');
              std::string second(70'000, '\0');
              const iovec parts[] = {{first.data(), first.size()}, {nullptr, 0}, {second.data(), second.size()}};
              ASSERT_EQ(::readv(file.get(), parts, 3), 70'100);
              EXPECT_TRUE(first + second == expected.substr(0, 70'100));
              ASSERT_EQ(::preadv(file.get(), parts, 3, 12'345), 70'100);
              EXPECT_TRUE(first + second == expected.substr(12'345, 70'100));
              ASSERT_EQ(::preadv2(file.get(), parts, 3, -1, 0), 70'100);
              EXPECT_TRUE(first + second == expected.substr(70'100, 70'100));
              ASSERT_EQ(::lseek(file.get(), 0, SEEK_CUR), 2 * 70'100);
            }),
            3 * 70'100U);
}

// What is asked wrongly is answered by the kernel; what went well leaves errno alone.
TEST(Errors, AreTheKernels) {
  const File file("text");
  const File directory(".");
  const File writable("written", O_WRONLY | O_CREAT);
  char byte = 0;
  errno = ENOTNAM;
  EXPECT_EQ(::read(file.get(), &byte, 1), 1);
  EXPECT_EQ(::pread(file.get(), &byte, 1, 1'000'000'000), 0);
  EXPECT_EQ(errno, ENOTNAM);
  const auto fails_with = [](ssize_t result, int expected) { EXPECT_TRUE(result == -1 && errno == expected) << errno; };
  fails_with(::pread(file.get(), &byte, 1, -1), EINVAL);
  const std::vector<iovec> too_many(IOV_MAX + 1, iovec{&byte, 0});
  fails_with(::readv(file.get(), too_many.data(), static_cast<int>(too_many.size())), EINVAL);
  fails_with(::read(directory.get(), &byte, 1), EISDIR);
  fails_with(::read(writable.get(), &byte, 1), EBADF);
  fails_with(::read(-1, &byte, 1), EBADF);
  fails_with(::read(1'000'000, &byte, 1), EBADF);
}

TEST(Stdio, ReadsFromThePool) {
  const std::string expected = truth("text");
  const auto stream = [] {
    return std::unique_ptr<FILE, int (*)(FILE*)>(std::fopen(path_of("text").c_str(), "r"), std::fclose);
  };
  EXPECT_EQ(pooled_by([&] {
              const auto whole = stream();
              std::string content(expected.size() + 1, '\0');
              ASSERT_EQ(std::fread(content.data(), 1, content.size(), whole.get()), expected.size());
              EXPECT_TRUE(content.compare(0, expected.size(), expected) == 0);
            }),
            expected.size());
  EXPECT_EQ(pooled_by([&] {
              const auto narrow = stream();
              for (const char character : expected) ASSERT_EQ(std::fgetc(narrow.get()), character);
              EXPECT_EQ(std::fgetc(narrow.get()), EOF);
            }),
            expected.size());
  EXPECT_EQ(pooled_by([&] {
              const auto wide = stream();
              for (const char character : expected) ASSERT_EQ(std::fgetwc(wide.get()), static_cast<wint_t>(character));
            }),
            expected.size());
}

TEST(Stdio, Seeks) {
  const std::string expected = truth("text");
  const std::unique_ptr<FILE, int (*)(FILE*)> stream(std::fopen(path_of("text").c_str(), "r"), std::fclose);
  for (const long offset : {0L, 200'000L, 7L, 4096L}) {
    char buffer[100];
    ASSERT_EQ(std::fseek(stream.get(), offset, SEEK_SET), 0);
    ASSERT_EQ(std::fread(buffer, 1, sizeof buffer, stream.get()), sizeof buffer);
    EXPECT_EQ(std::string(buffer, sizeof buffer), expected.substr(static_cast<std::size_t>(offset), sizeof buffer));
    EXPECT_EQ(std::ftell(stream.get()), offset + 100);
  }
}

TEST(Threads, ReadTheSameDescriptorAnywhere) {
  const std::string expected = truth("binary");
  const File file("binary");
  std::vector<std::jthread> threads;
  for (unsigned seed = 1; seed <= 4; ++seed) {
    threads.emplace_back([&, seed] {
      std::minstd_rand dice(seed);
      std::string buffer(5000, '\0');
      for (int i = 0; i < 3000; ++i) {
        const std::size_t offset = dice() % (expected.size() - buffer.size());
        ASSERT_EQ(::pread(file.get(), buffer.data(), buffer.size(), static_cast<off_t>(offset)), 5000);
        ASSERT_EQ(expected.compare(offset, buffer.size(), buffer), 0);
      }
    });
  }
}

// Each byte of a descriptor that several read goes to one of them.
TEST(Threads, ShareAnOffset) {
  constexpr std::size_t kStep = 1000;
  const std::string expected = truth("binary");
  std::map<std::string, int> times_read;
  for (std::size_t at = 0; at < expected.size(); at += kStep) times_read[expected.substr(at, kStep)] = 0;
  const File file("binary");
  std::mutex mutex;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        std::string buffer(kStep, '\0');
        ssize_t got = 0;
        while ((got = ::read(file.get(), buffer.data(), kStep)) > 0) {
          const std::lock_guard lock(mutex);
          ++times_read[buffer.substr(0, static_cast<std::size_t>(got))];
        }
      });
    }
  }
  EXPECT_EQ(times_read.size(), (expected.size() + kStep - 1) / kStep);
  for (const auto& [bytes, times] : times_read) ASSERT_EQ(times, 1);
}

// A number comes to mean another file while threads read by it. Each read is of one of the files, and moves the offset
// of that one.
TEST(Threads, ReadWhileTheNumberChangesItsMeaning) {
  constexpr std::size_t kStep = 16;
  const File opened[] = {File("binary"), File("text")};
  const File shared(::dup(opened[0].get()));
  std::atomic<off_t> read_of[] = {0, 0};
  std::atomic<bool> is_over = false;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      std::string buffer(kStep, '\0');
      while (!is_over) {
        const ssize_t got = ::read(shared.get(), buffer.data(), kStep);
        ASSERT_EQ(got, static_cast<ssize_t>(kStep));
        // Noise has no 16 bytes of text in it.
        const bool is_text = std::ranges::all_of(buffer, [](unsigned char letter) { return letter < 0x80; });
        read_of[is_text ? 1 : 0] += got;
      }
    });
  }
  const auto offset = [&](int which) { return ::lseek(opened[which].get(), 0, SEEK_CUR); };
  for (int round = 0; round < 20'000 && offset(0) < 1'000'000 && offset(1) < 500'000; ++round) {
    ASSERT_EQ(::dup2(opened[round % 2].get(), shared.get()), shared.get());
  }
  is_over = true;
  threads.clear();
  EXPECT_EQ(offset(0), read_of[0]);
  EXPECT_EQ(offset(1), read_of[1]);
}

// Whatever state the parent's other threads were in.
TEST(Threads, ReadWhileTheProcessForks) {
  const std::string expected = truth("binary");
  const File file("binary");
  const auto check = [&](unsigned seed) {
    std::string buffer(100'000, '\0');
    const std::size_t offset = seed * 7919 % (expected.size() - buffer.size());
    ASSERT_EQ(::pread(file.get(), buffer.data(), buffer.size(), static_cast<off_t>(offset)), 100'000);
    ASSERT_EQ(expected.compare(offset, buffer.size(), buffer), 0);
  };
  std::vector<std::jthread> threads;
  for (unsigned first = 0; first < 2; ++first) {
    threads.emplace_back([&, first](const std::stop_token& stop) {
      for (unsigned i = first; !stop.stop_requested(); ++i) check(i);
    });
  }
  for (unsigned i = 0; i < 30; ++i) {
    in_child([&] {
      for (unsigned k = 0; k < 10; ++k) check(i + k);
    });
  }
}

TEST(Forks, ShareTheOffset) {
  const std::string expected = truth("text");
  const File file("text");
  std::string buffer(1000, '\0');
  ASSERT_EQ(::read(file.get(), buffer.data(), buffer.size()), 1000);
  in_child([&] {
    EXPECT_EQ(::read(file.get(), buffer.data(), buffer.size()), 1000);
    EXPECT_EQ(buffer, expected.substr(1000, 1000));
  });
  ASSERT_EQ(::read(file.get(), buffer.data(), buffer.size()), 1000);
  EXPECT_EQ(buffer, expected.substr(2000, 1000));
}

// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): a signal handler has no other way
struct {
  int fd;
  const std::string* expected;
  std::atomic<int> good;
  std::atomic<int> bad;
} handled;
// NOLINTEND

TEST(Signals, MayReadInTheirHandlers) {
  const std::string expected = truth("binary");
  const File file("binary");
  handled.fd = file.get();
  handled.expected = &expected;
  struct sigaction action {};
  action.sa_flags = SA_RESTART;
  action.sa_handler = [](int) {
    char buffer[777];
    const std::size_t offset = static_cast<std::size_t>(handled.good) * 7919 % 2'000'000;
    const ssize_t got = ::pread(handled.fd, buffer, sizeof buffer, static_cast<off_t>(offset));
    ++(got == 777 && handled.expected->compare(offset, 777, buffer, 777) == 0 ? handled.good : handled.bad);
  };
  struct sigaction before {};
  ::sigaction(SIGALRM, &action, &before);
  const itimerval often{{0, 500}, {0, 500}};
  ::setitimer(ITIMER_REAL, &often, nullptr);
  while (handled.good < 50 && handled.bad == 0) {
    ASSERT_EQ(::lseek(file.get(), 0, SEEK_SET), 0);
    ASSERT_TRUE(read_all(file.get(), 10'000) == expected);
  }
  const itimerval never{};
  ::setitimer(ITIMER_REAL, &never, nullptr);
  ::sigaction(SIGALRM, &before, nullptr);
  EXPECT_EQ(handled.bad, 0);
}

}  // namespace
}  // namespace farside::hooked
