// What is taken for a history, and what is refused: with the file, the line and the reason.
#include <gmock/gmock.h>

#include "farside/base/error.h"

#include "tests/kv/client/recorded.h"

namespace farside::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Outcome = kv::HistoryTransaction::Outcome;

/// What reading and checking these files as one history complains of.
std::string refusal(const std::vector<std::string>& texts) {
  const RecordedFiles files(texts);
  try {
    static_cast<void>(kv::check_read_atomic(kv::read_history(files.names())));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "nothing";
}

// How the lines of sessions mix means nothing; the order within each does.
TEST(KvHistoryFormat, OrdersTransactionsBySession) {
  const kv::History history = recorded(
      "w(1,2,7,0)\n"
      "r(1,0,3,0)\n"
      "w(4,18446744073709551615,7,0)\n"
      "r(1,2,3,9223372036854775807)\n"
      "r(1,0,7,1)\n"
      "a(7,1)\n"
      "w(5,5,3,-1)\n"
      "w(6,6,7,2)\n"
      "u(7,2)\n");
  std::vector<std::tuple<std::uint64_t, std::int64_t, Outcome, std::size_t>> seen;
  for (const kv::HistoryTransaction& each : history.transactions) {
    seen.emplace_back(each.session, each.id, each.outcome, each.operations.size());
  }
  EXPECT_THAT(
      seen,
      ElementsAre(std::tuple(0, kv::kNoHistoryId, Outcome::committed, 0),  // the initial values
                  std::tuple(3, 0, Outcome::committed, 1), std::tuple(3, 9223372036854775807, Outcome::committed, 1),
                  std::tuple(3, kv::kNoHistoryId, Outcome::aborted, 1), std::tuple(7, 0, Outcome::committed, 2),
                  std::tuple(7, 1, Outcome::aborted, 1), std::tuple(7, 2, Outcome::unknown, 1)));
  EXPECT_EQ(history.transactions[4].operations[1].value, 18446744073709551615U);
  EXPECT_EQ(history.transactions[4].operations[1].line, 3);
}

TEST(KvHistoryFormat, TakesSeveralFilesAsOneHistory) {
  const RecordedFiles files({"w(1,5,0,0)\n", "r(1,5,1,0)\n", "", "r(1,5,0,1)"});
  EXPECT_FALSE(kv::check_read_atomic(kv::read_history(files.names())));
}

TEST(KvHistoryFormat, RefusesWhatIsNoOperation) {
  for (const char* line : {"",
                           " ",
                           "x(1,2,3,4)",
                           "w",
                           "w(",
                           "w 1,2,3,4",
                           "W(1,2,3,4)",
                           "w(1,2,3)",
                           "w(1,2,3,4,5)",
                           "w(1,2,3,4",
                           "w(1,2,3,4) ",
                           " w(1,2,3,4)",
                           "w(1, 2,3,4)",
                           "w(1,2,3,4)\r",
                           "w(-1,2,3,4)",
                           "w(1,-2,3,4)",
                           "w(1,2,-3,4)",
                           "w(1,2,3,-2)",
                           "w(1,,3,4)",
                           "w(a,2,3,4)",
                           "w(1,2.5,3,4)",
                           "w(18446744073709551616,2,3,4)",
                           "w(1,2,3,9223372036854775808)",
                           "a(1)",
                           "a(1,2,3)",
                           "u(1,)",
                           "# w(1,2,3,4)"}) {
    const std::string said = refusal({"w(9,9,9,9)\n" + std::string(line) + "\nw(8,8,8,8)\n"});
    EXPECT_THAT(said, HasSubstr("0.txt:2: ")) << line;
    EXPECT_THAT(said, HasSubstr("docs/kv_histories.md")) << line;
  }
}

struct Refused {
  std::vector<std::string> texts;
  std::string place;
  std::string why;
};

TEST(KvHistoryFormat, RefusesWhatMakesNoSense) {
  for (const Refused& refused : std::vector<Refused>{
           {{"w(1,0,0,0)\n"}, "0.txt:1", "writes 0"},
           {{"w(1,5,0,0)\n", "r(1,5,1,0)\nw(1,5,1,1)\n"}, "1.txt:2", "0.txt:1"},
           {{"w(1,5,0,0)\nw(1,5,0,-1)\n"}, "0.txt:2", "same value"},
           {{"r(1,0,0,0)\nr(1,0,0,1)\nr(1,0,0,0)\n"}, "0.txt:3", "goes on after the next one"},
           {{"r(1,0,0,0)\n", "r(1,0,0,0)\n"}, "1.txt:1", "from another file"},
           {{"r(1,0,0,0)\na(0,0)\nr(2,0,0,0)\n"}, "0.txt:3", "after its outcome"},
           {{"r(1,0,0,0)\na(0,0)\nu(0,0)\n"}, "0.txt:3", "has its outcome"},
           {{"a(0,0)\n"}, "0.txt:1", "not of this transaction"},
           {{"r(1,0,0,0)\na(0,1)\n"}, "0.txt:2", "not of this transaction"},
           {{"r(1,0,0,0)\na(1,0)\n"}, "0.txt:2", "not of this transaction"},
           {{"r(1,0,0,-1)\na(0,-1)\n"}, "0.txt:2", "not of this transaction"},
           {{"", ""}, "0.txt", "nothing is recorded"},
       }) {
    EXPECT_THAT(refusal(refused.texts), HasSubstr(refused.place + ": ")) << refused.why;
    EXPECT_THAT(refusal(refused.texts), HasSubstr(refused.why));
  }
}

TEST(KvHistoryFormat, RefusesWhatIsNoFile) {
  const TemporaryDirectory directory;
  const std::string folder = directory.path();
  EXPECT_THROW(static_cast<void>(kv::read_history(std::vector{folder})), UsageError);
  EXPECT_THROW(static_cast<void>(kv::read_history(std::vector{folder + "/missing.txt"})), UsageError);
}

}  // namespace
}  // namespace farside::test
