// `farside kv check`: its exit code is its verdict, and what it was used wrongly for is no verdict.
#include <fstream>
#include <string>

#include <gmock/gmock.h>

#include "tests/support/pool.h"

namespace farside::test {
namespace {

using ::testing::HasSubstr;

class KvCheck : public PoolTest {
 protected:
  std::string file(const std::string& name, const std::string& text) {
    std::string path = files_dir() / name;
    std::ofstream(path) << text;
    return path;
  }
};

TEST_F(KvCheck, SucceedsOnAHistoryThatIsReadAtomic) {
  const CommandEnd end = farside(
      {"kv", "check", file("writer.txt", "w(1,5,0,0)\nw(2,6,0,0)\n"), file("reader.txt", "r(1,5,1,0)\nr(2,6,1,0)\n")});
  EXPECT_EQ(end.code(), 0) << end.err;
  EXPECT_THAT(end.out, HasSubstr("2 transactions in 2 sessions, 4 operations; read in 0."));
  EXPECT_THAT(end.out, HasSubstr("\nRead Atomic, and no session's reads go back\n"));
}

TEST_F(KvCheck, FailsAndTellsTheAnomaly) {
  const CommandEnd end = farside(
      {"kv", "check", file("writer.txt", "w(1,5,0,0)\nw(2,6,0,0)\n"), file("reader.txt", "r(1,5,1,0)\nr(2,0,1,0)\n")});
  EXPECT_EQ(end.code(), 1) << end.err;
  EXPECT_THAT(end.out, HasSubstr("\nnot Read Atomic: fractured read\n"));
  EXPECT_THAT(end.out, HasSubstr("reader.txt:2"));
}

// It is Read Atomic all the same, as others define it.
TEST_F(KvCheck, FailsForASessionWhoseReadsGoBack) {
  const CommandEnd end = farside({"kv", "check", file("h.txt", "w(1,5,0,0)\nr(1,5,1,0)\nr(1,0,1,1)\n")});
  EXPECT_EQ(end.code(), 1) << end.err;
  EXPECT_THAT(end.out, HasSubstr("\nRead Atomic, but a session's reads go back: non-monotonic read\n"));
}

TEST_F(KvCheck, IsUsedWronglyWithoutAHistory) {
  for (const auto& [arguments, said] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"kv"}, "subcommand"},
           {{"kv", "check"}, "files"},
           {{"kv", "check", "--colour", file("h.txt", "r(1,0,0,0)\n")}, "--colour"},
           {{"kv", "check", "missing.txt"}, "missing.txt"},
           {{"kv", "check", file("empty.txt", "")}, "nothing is recorded"},
           {{"kv", "check", file("broken.txt", "r(1,0,0,0)\nr(1,0\n")}, "broken.txt:2"},
       }) {
    const CommandEnd end = farside(arguments);
    EXPECT_EQ(end.code(), 2) << end.out;
    EXPECT_THAT(end.err, HasSubstr(said));
  }
}

TEST_F(KvCheck, HelpsWithAnExample) {
  const CommandEnd end = farside({"kv", "check", "--help"});
  EXPECT_EQ(end.code(), 0);
  EXPECT_THAT(end.out, HasSubstr("Example:\n  farside kv check"));
}

}  // namespace
}  // namespace farside::test
