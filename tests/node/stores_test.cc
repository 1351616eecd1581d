// Whether the next store into a file will show, asked of real files and mappings.
#include "node/files/stores.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "node/files/file_system.h"

namespace farside::node {
namespace {

constexpr std::uint64_t kBytes = 4096;

class Stores : public ::testing::Test {
 protected:
  Stores() {
    std::string pattern = std::filesystem::temp_directory_path() / "farside-stores-XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
    std::ofstream(path()) << std::string(kBytes, '0');
    file_ = Fd(::open(path().c_str(), O_RDONLY | O_CLOEXEC));
  }
  ~Stores() override {
    if (mapping_ != nullptr) ::munmap(mapping_, kBytes);
    std::filesystem::remove_all(directory_);
  }
  void SetUp() override {
    const auto found = file_systems_.examine(file_);
    if (!found || found->times != TimesFrom::kernel) GTEST_SKIP() << directory_ << " is on no local disk";
  }

  [[nodiscard]] std::filesystem::path path() const { return directory_ / "file"; }
  [[nodiscard]] cache::FileIdentity version() { return file_systems_.identify(file_).value(); }
  [[nodiscard]] bool will_show(TimesFrom times) { return stores_will_show(file_, version(), times, 0, kBytes); }

  // Returns the descriptor, which the mapping does not need.
  Fd map() {
    Fd writable(::open(path().c_str(), O_RDWR | O_CLOEXEC));
    mapping_ = static_cast<char*>(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, writable.get(), 0));
    return writable;
  }
  void store(char letter) { *static_cast<volatile char*>(mapping_) = letter; }

  std::filesystem::path directory_;
  Fd file_;
  FileSystems file_systems_;
  char* mapping_ = nullptr;
};

void let_time_stamps_move_on() { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }

TEST_F(Stores, WillShowWhereNothingMayWrite) { EXPECT_TRUE(will_show(TimesFrom::kernel)); }

TEST_F(Stores, MayNotShowWhileADescriptorMayWrite) {
  const Fd writable(::open(path().c_str(), O_WRONLY | O_CLOEXEC));
  EXPECT_FALSE(will_show(TimesFrom::kernel));
  EXPECT_FALSE(will_show(TimesFrom::overlay));
}

TEST_F(Stores, MayNotShowWhileAMappingMayWrite) {
  map();
  EXPECT_FALSE(will_show(TimesFrom::kernel));
  ::munmap(std::exchange(mapping_, nullptr), kBytes);
  EXPECT_TRUE(will_show(TimesFrom::kernel));
}

// Without a look at the writers there is only the writing back.
TEST_F(Stores, IntoPagesThatWereWrittenBackShow) {
  map();
  store('a');
  const cache::FileIdentity first = version();
  let_time_stamps_move_on();
  store('b');
  EXPECT_EQ(version(), first);  // which is why any of this is needed
  for (int i = 0; i < 3; ++i) {
    const cache::FileIdentity before = version();
    ASSERT_TRUE(will_show(TimesFrom::server));
    EXPECT_EQ(version(), before);
    let_time_stamps_move_on();
    store('c');
    EXPECT_NE(version(), before);
  }
}

// Another process's open for writing neither waits nor fails.
TEST_F(Stores, AreNotHinderedByTheLook) {
  ASSERT_TRUE(will_show(TimesFrom::kernel));
  EXPECT_EQ(::fcntl(file_.get(), F_GETLEASE), F_UNLCK);
  EXPECT_TRUE(Fd(::open(path().c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK)));
}

// Writers come and go while many look: none of them is kept waiting for long or ended by a signal.
TEST_F(Stores, MayBeginWhileManyLook) {
  std::atomic<bool> done = false;
  std::vector<std::thread> looking;
  for (int i = 0; i < 4; ++i) {
    looking.emplace_back([&] {
      while (!done) (void)will_show(TimesFrom::kernel);
    });
  }
  for (int i = 0; i < 2'000; ++i) EXPECT_TRUE(Fd(::open(path().c_str(), O_WRONLY | O_CLOEXEC)));
  done = true;
  for (std::thread& thread : looking) thread.join();
}

// Without the right to take a lease, writers cannot be seen. A call of write moves the times when it begins, and may
// last.
TEST_F(Stores, OfAnotherUsersFileMayNotShowSoonAfterAChange) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const cache::FileIdentity fresh = version();
  cache::FileIdentity old = fresh;
  old.modified_ns = old.changed_ns = 0;
  const auto look = [&] {
    if (::setresuid(65534, 65534, 65534) != 0) std::_Exit(3);
    const bool of_fresh = stores_will_show(file_, fresh, TimesFrom::kernel, 0, kBytes);
    const bool of_old = stores_will_show(file_, old, TimesFrom::kernel, 0, kBytes);
    std::_Exit((of_fresh ? 1 : 0) + (of_old ? 0 : 2));
  };
  EXPECT_EXIT(look(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace farside::node
