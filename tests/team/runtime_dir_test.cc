#include "net/runtime_dir.h"

#include <cstdlib>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "farside/base/error.h"

#include "net/secret.h"

namespace farside::team {
namespace {

using net::Secret;

namespace fs = std::filesystem;
using testing::HasSubstr;

template <class Body>
std::string error_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// A directory of the test's own, as the runtime directory's parent.
class RuntimeDirTest : public testing::Test {
 protected:
  RuntimeDirTest() {
    std::string path = fs::temp_directory_path() / "farside-test-XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) throw errno_error("make", path);
    parent_ = path;
    ::setenv("FARSIDE_RUNTIME_DIR", (parent_ / "run").c_str(), 1);
  }
  ~RuntimeDirTest() override {
    ::unsetenv("FARSIDE_RUNTIME_DIR");
    fs::remove_all(parent_);
  }

  fs::path parent_;
};

TEST_F(RuntimeDirTest, IsMadeForItsOwnerAlone) {
  EXPECT_EQ(net::runtime_dir(), parent_ / "run");
  EXPECT_EQ(fs::status(parent_ / "run").permissions(), fs::perms::owner_all);
  EXPECT_EQ(net::runtime_dir(), parent_ / "run");  // and found again
}

TEST_F(RuntimeDirTest, IsRefusedWhenOthersMayEnter) {
  fs::create_directory(parent_ / "run");
  fs::permissions(parent_ / "run", fs::perms(0750));
  EXPECT_THAT(error_of([] { (void)net::runtime_dir(); }), HasSubstr("others may enter it"));
}

// A link could be put there by another user, to have secrets written elsewhere.
TEST_F(RuntimeDirTest, IsRefusedWhenItIsALink) {
  fs::create_directory(parent_ / "elsewhere");
  fs::create_directory_symlink(parent_ / "elsewhere", parent_ / "run");
  EXPECT_THAT(error_of([] { (void)net::runtime_dir(); }), HasSubstr("it is not a directory"));
}

TEST_F(RuntimeDirTest, IsRefusedWhenItBelongsToAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  (void)net::runtime_dir();
  ASSERT_EQ(::chown((parent_ / "run").c_str(), 65534, 65534), 0);
  EXPECT_THAT(error_of([] { (void)net::runtime_dir(); }), HasSubstr("it belongs to another user"));
}

TEST_F(RuntimeDirTest, KeepsTheDirectoriesOfLivingJobsAndRemovesThoseOfDeadOnes) {
  const net::JobDir living;
  fs::create_directory(net::runtime_dir() / "job-dead");
  std::ofstream(net::runtime_dir() / "job-dead" / "secret") << "left by kill -9";
  std::ofstream(net::runtime_dir() / "pool") << "not a job";
  const net::JobDir next;
  EXPECT_TRUE(fs::exists(living.path()));
  EXPECT_FALSE(fs::exists(net::runtime_dir() / "job-dead"));
  EXPECT_TRUE(fs::exists(net::runtime_dir() / "pool"));
}

TEST_F(RuntimeDirTest, LeavesNothingOfAJob) {
  { const net::JobDir job; }
  EXPECT_TRUE(fs::is_empty(net::runtime_dir()));
}

TEST_F(RuntimeDirTest, SecretsAreForTheirOwnerAlone) {
  const fs::path file = net::runtime_dir() / "secret";
  const Secret made = Secret::create(file);
  EXPECT_EQ(fs::status(file).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(Secret::load(file).prove("test", {"x"}), made.prove("test", {"x"}));
  EXPECT_THAT(error_of([&] { (void)Secret::create(file); }), HasSubstr("File exists"));

  fs::permissions(file, fs::perms(0640));
  EXPECT_THAT(error_of([&] { (void)Secret::load(file); }), HasSubstr("chmod 600 it"));
}

TEST_F(RuntimeDirTest, SecretsHaveTheirFullLength) {
  const fs::path file = net::runtime_dir() / "secret";
  (void)Secret::create(file);
  fs::resize_file(file, 16);
  EXPECT_THAT(error_of([&] { (void)Secret::load(file); }), HasSubstr("not 32 bytes long"));
  EXPECT_THAT(error_of([] { (void)Secret::load("/no/such/file"); }), HasSubstr("is the pool running?"));
}

// One proof must never pass for another: neither of another role nor with its parts cut differently.
TEST_F(RuntimeDirTest, ProofsDependOnTheirPurpose) {
  const Secret secret = Secret::create(net::runtime_dir() / "secret");
  EXPECT_NE(secret.prove("member", {"x"}), secret.prove("coordinator", {"x"}));
  EXPECT_NE(secret.prove("a", {"bc"}), secret.prove("ab", {"c"}));
}

}  // namespace
}  // namespace farside::team
