// Which process is a node: the holder of its lock, whatever pids were written there before.
#include "node/pool/node_lock.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "farside/base/error.h"

#include "node/pool/pool_directory.h"
#include "tests/support/pool.h"
#include "tests/support/shared.h"

namespace farside::test {
namespace {

using node::claim_node;
using node::find_node;
using node::RunningNode;

/// A process that is a node: it inherits the lock, and writes its pid after `delay_ms`.
class Holder {
 public:
  Holder(const std::filesystem::path& file, unsigned delay_ms) {
    const Fd lock = claim_node(file);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::usleep(delay_ms * 1000);
      const std::string text = std::to_string(::getpid());
      if (::pwrite(lock.get(), text.data(), text.size(), 0) < 0) ::_exit(1);
      for (;;) ::pause();
    }
  }
  ~Holder() { kill(); }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  void kill() {
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(std::exchange(pid_, 0), nullptr, 0);
  }

 private:
  pid_t pid_ = 0;
};

class NodeLock : public testing::Test {
 protected:
  TemporaryDirectory directory_;
  node::PoolDirectory pool_{directory_.path()};
  std::filesystem::path file_ = pool_.node_lock(3);
};

TEST_F(NodeLock, IsThatOfTheProcessThatHoldsIt) {
  EXPECT_FALSE(find_node(file_, 3));
  Holder holder(file_, 0);
  const auto found = find_node(file_, 3);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 3U);
  EXPECT_EQ(found->process, holder.pid());
  EXPECT_TRUE(found->pidfd);
  EXPECT_EQ(pool_.running_nodes().size(), 1U);
  holder.kill();
  EXPECT_FALSE(find_node(file_, 3));
  EXPECT_TRUE(pool_.running_nodes().empty());
}

// A supervisor was killed when it had just started the node.
TEST_F(NodeLock, IsAwaitedWhoseProcessHasNotSaidYet) {
  const Holder holder(file_, 200);
  const auto found = find_node(file_, 3);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->process, holder.pid());
}

// Another process may have that pid by now: here this one.
TEST_F(NodeLock, IsNoProcessThatDoesNotHoldIt) {
  std::ofstream(file_) << ::getpid() << '\n';
  EXPECT_FALSE(find_node(file_, 3));
  const Holder holder(file_, 200);
  const auto found = find_node(file_, 3);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->process, holder.pid());
}

TEST_F(NodeLock, IsOneProcesssAtATime) {
  const Holder holder(file_, 0);
  EXPECT_THROW((void)claim_node(file_), Error);
}

TEST_F(NodeLock, IsGoneWithThePoolsOtherFiles) {
  { const Fd claimed = claim_node(file_); }
  EXPECT_TRUE(pool_.clean());
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
}

TEST_F(NodeLock, LeadsToNodesThatCannotEndThemselves) {
  const Holder asked(file_, 0);
  const Holder stopped(pool_.node_lock(4), 0);
  ASSERT_EQ(pool_.running_nodes().size(), 2U);
  ::kill(stopped.pid(), SIGSTOP);
  ::waitpid(stopped.pid(), nullptr, WUNTRACED);  // a SIGTERM that came with it would be first
  EXPECT_FALSE(node::end_nodes(pool_.running_nodes(), std::chrono::milliseconds(100)));
  EXPECT_TRUE(eventually([this] { return pool_.running_nodes().empty(); }));
  const Holder another(file_, 0);
  EXPECT_TRUE(node::end_nodes(pool_.running_nodes(), std::chrono::seconds(60)));
}

}  // namespace
}  // namespace farside::test
