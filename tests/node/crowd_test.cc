// A node's socket, when very many come to it.
#include "tests/support/crowd.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <string>

#include <gmock/gmock.h>

#include "tests/node/socket_probe.h"
#include "tests/support/descriptors.h"
#include "tests/support/pool.h"
#include "tests/support/shared.h"

namespace farside::test {
namespace {

using testing::AllOf;
using testing::Ge;
using testing::Le;

/// The parameter limits the node's descriptors.
class NodeSocketCrowd : public PoolTest, public ::testing::WithParamInterface<std::string> {
 protected:
  NodeSocketCrowd() { std::ofstream(file()) << kContent; }

  [[nodiscard]] std::filesystem::path file() const { return files_dir() / "file"; }
  [[nodiscard]] std::filesystem::path node_socket() const { return runtime_dir() / "node-0.sock"; }
  [[nodiscard]] std::int64_t logged_lines() const {
    std::ifstream log(runtime_dir() / "pool.log");
    return std::count(std::istreambuf_iterator<char>(log), {}, '\n');
  }

  const std::string kContent = std::string(100'000, 'x');
};

INSTANTIATE_TEST_SUITE_P(, NodeSocketCrowd, testing::Values("300", "20000"));

// Ten thousand clients come and stay; half of them say what makes no sense, and the others nothing. A client that was
// there before is served all along, one that comes afterwards as well, and neither descriptors nor memory nor the log
// fill up.
TEST_P(NodeSocketCrowd, HarmsNoOtherClient) {
  const CommandEnd end = up({"-n", "1", "--cache", "1M", "--block", "64K"}, {"prlimit", "--nofile=" + GetParam()});
  ASSERT_EQ(end.code(), 0);
  const std::int64_t lines_before = logged_lines();
  const auto start = std::chrono::steady_clock::now();
  SocketProbe before(node_socket());
  if (!before.identify(open_file(file()))) GTEST_SKIP() << files_dir() << " is on a file system that cannot be cached";
  ASSERT_EQ(before.read_file(file()), kContent);
  const std::string node = std::to_string(node_processes().at(0));
  const std::uint64_t bytes_before = resident_bytes(node);
  {
    Crowd crowd(node_socket());
    EXPECT_EQ(before.read_file(file()), kContent);
    const std::size_t size = crowd.wait_until_complete();
    EXPECT_EQ(before.read_file(file()), kContent);
    EXPECT_LT(open_descriptors(node), std::min<std::size_t>(size, 4500));
    expect_resident_below(bytes_before + (64 << 20), node);
  }
  EXPECT_TRUE(eventually([&] { return SocketProbe(node_socket()).read_file(file()) == kContent; }));
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - start).count();
  EXPECT_THAT(logged_lines() - lines_before, AllOf(Ge(1), Le(seconds + 1))) << log();
}

}  // namespace
}  // namespace farside::test
