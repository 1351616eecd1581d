// One history for each anomaly, as small as can be, beside those that look alike and are right.
#include <algorithm>

#include <gmock/gmock.h>

#include "tests/kv/client/recorded.h"

namespace farside::test {
namespace {

using kv::HistoryAnomaly;

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Kind = HistoryAnomaly::Kind;

/// The anomaly of a history that has one.
HistoryAnomaly shown(const std::string& text) {
  const auto anomaly = kv::check_read_atomic(recorded(text));
  EXPECT_TRUE(anomaly) << text;
  return anomaly.value_or(HistoryAnomaly{});
}

bool is_right(const std::string& text) { return !kv::check_read_atomic(recorded(text)); }

TEST(KvAnomalies, ThinAirRead) {
  const HistoryAnomaly anomaly = shown(
      "w(1,5,0,0)\n"
      "r(1,6,1,1)\n");
  EXPECT_EQ(anomaly.kind, Kind::thin_air_read);
  EXPECT_THAT(anomaly.evidence, ElementsAre(AllOf(HasSubstr("r(1,6,1,1) at"), HasSubstr("0.txt:2"))));
}

// The value exists, of another key.
TEST(KvAnomalies, ThinAirReadOfAnotherKeysValue) {
  EXPECT_EQ(shown("w(1,5,0,0)\n"
                  "r(2,5,1,1)\n")
                .kind,
            Kind::thin_air_read);
}

TEST(KvAnomalies, AbortedRead) {
  const HistoryAnomaly anomaly = shown(
      "w(1,5,0,0)\n"
      "a(0,0)\n"
      "r(1,5,1,1)\n");
  EXPECT_EQ(anomaly.kind, Kind::aborted_read);
  EXPECT_THAT(anomaly.evidence, ElementsAre(AllOf(HasSubstr("r(1,5,1,1)"), HasSubstr("w(1,5,0,0)"))));
}

// As Plume writes it down.
TEST(KvAnomalies, AbortedReadOfATransactionWithoutNumber) {
  EXPECT_EQ(shown("w(1,5,0,-1)\n"
                  "r(1,5,1,1)\n")
                .kind,
            Kind::aborted_read);
}

// An aborted transaction may have seen anything, and no other transaction need see it.
TEST(KvAnomalies, NoneInAbortedTransactions) {
  EXPECT_TRUE(
      is_right("w(1,5,0,0)\n"
               "r(2,7,0,0)\n"
               "a(0,0)\n"
               "r(1,0,0,1)\n"
               "w(1,6,0,-1)\n"
               "r(1,0,0,1)\n"));
}

TEST(KvAnomalies, IntermediateRead) {
  const HistoryAnomaly anomaly = shown(
      "w(1,5,0,0)\n"
      "w(1,6,0,0)\n"
      "r(1,5,1,1)\n");
  EXPECT_EQ(anomaly.kind, Kind::intermediate_read);
  EXPECT_TRUE(
      is_right("w(1,5,0,0)\n"
               "w(1,6,0,0)\n"
               "r(1,6,1,1)\n"));
}

TEST(KvAnomalies, FutureRead) {
  EXPECT_EQ(shown("r(1,5,0,0)\n"
                  "w(1,5,0,0)\n")
                .kind,
            Kind::future_read);
}

TEST(KvAnomalies, OwnWriteMissed) {
  const std::string other = "w(1,5,0,0)\n";
  EXPECT_EQ(shown(other + "w(1,6,1,1)\n"
                          "r(1,5,1,1)\n")
                .kind,
            Kind::own_write_missed);
  EXPECT_EQ(shown("w(1,6,1,1)\n"
                  "r(1,0,1,1)\n")
                .kind,
            Kind::own_write_missed);
  EXPECT_TRUE(is_right(other + "r(1,5,1,1)\n"
                               "w(1,6,1,1)\n"
                               "r(1,6,1,1)\n"));
}

TEST(KvAnomalies, OwnWriteMissedForAnOlderOwnWrite) {
  EXPECT_EQ(shown("w(1,5,0,0)\n"
                  "w(1,6,0,0)\n"
                  "r(1,5,0,0)\n")
                .kind,
            Kind::own_write_missed);
}

// A session's own write counts for its later transactions, too.
TEST(KvAnomalies, OwnWriteMissedInALaterTransaction) {
  const HistoryAnomaly anomaly = shown(
      "w(1,5,0,0)\n"
      "r(1,0,0,1)\n");
  EXPECT_EQ(anomaly.kind, Kind::own_write_missed);
  EXPECT_THAT(anomaly.evidence, Contains(AllOf(HasSubstr("transaction 0 of session 0 before the initial values"),
                                               HasSubstr("r(1,0,0,1) at"))));
  EXPECT_TRUE(
      is_right("w(1,5,0,0)\n"
               "r(1,0,1,1)\n"));
}

// Each session sees the other's write after its own: whichever comes last, its session has missed it.
TEST(KvAnomalies, OwnWriteMissedByOneOfTwo) {
  const HistoryAnomaly anomaly = shown(
      "w(1,5,0,0)\n"
      "w(1,6,1,1)\n"
      "r(1,6,0,2)\n"
      "r(1,5,1,3)\n");
  EXPECT_EQ(anomaly.kind, Kind::own_write_missed);
  EXPECT_THAT(anomaly.evidence, ElementsAre(HasSubstr("r("), HasSubstr("r(")));
}

TEST(KvAnomalies, NonRepeatableRead) {
  EXPECT_EQ(shown("w(1,5,0,0)\n"
                  "r(1,0,1,1)\n"
                  "r(1,5,1,1)\n")
                .kind,
            Kind::non_repeatable_read);
  EXPECT_TRUE(
      is_right("w(1,5,0,0)\n"
               "r(1,0,1,1)\n"
               "r(1,0,1,1)\n"
               "r(1,5,1,2)\n"));
}

TEST(KvAnomalies, CircularFlow) {
  const HistoryAnomaly anomaly = shown(
      "w(1,5,0,0)\n"
      "r(2,6,0,0)\n"
      "w(2,6,1,1)\n"
      "r(1,5,1,1)\n");
  EXPECT_EQ(anomaly.kind, Kind::circular_flow);
  EXPECT_EQ(anomaly.evidence.size(), 2);
}

// A session that sees what it writes only later.
TEST(KvAnomalies, CircularFlowThroughASession) {
  EXPECT_EQ(shown("r(1,5,0,0)\n"
                  "w(1,5,0,1)\n")
                .kind,
            Kind::circular_flow);
}

TEST(KvAnomalies, FracturedRead) {
  const HistoryAnomaly anomaly = shown(
      "w(1,5,0,0)\n"
      "w(2,6,0,0)\n"
      "r(1,5,1,1)\n"
      "r(2,0,1,1)\n");
  EXPECT_EQ(anomaly.kind, Kind::fractured_read);
  EXPECT_THAT(anomaly.evidence, Contains(AllOf(HasSubstr("r(1,5,1,1) at"), HasSubstr("r(2,0,1,1) at"))));
}

// In which order the reads were made is no excuse.
TEST(KvAnomalies, FracturedReadOfTheOldPartFirst) {
  EXPECT_EQ(shown("w(1,5,0,0)\n"
                  "w(2,6,0,0)\n"
                  "r(2,0,1,1)\n"
                  "r(1,5,1,1)\n")
                .kind,
            Kind::fractured_read);
}

// A part of one transaction, and the rest of a later one: right, as long as one order of the two explains all readers.
TEST(KvAnomalies, FracturedReadOfTwoReadersThatDisagree) {
  const std::string two_writers_and_a_reader =
      "w(1,11,0,0)\n"
      "w(2,12,0,0)\n"
      "w(1,21,1,1)\n"
      "w(2,22,1,1)\n"
      "w(3,23,1,1)\n"
      "w(3,13,0,0)\n"
      "r(1,11,2,2)\n";
  EXPECT_TRUE(is_right(two_writers_and_a_reader + "r(3,13,2,2)\n"));
  EXPECT_EQ(shown(two_writers_and_a_reader + "r(2,22,2,2)\n").kind, Kind::fractured_read);
}

// No reader is wrong for itself: only together do they leave no order of the writers.
TEST(KvAnomalies, FracturedReadAmongThreeWriters) {
  const std::string writers =
      "w(1,11,0,0)\nw(2,12,0,0)\n"
      "w(2,22,1,1)\nw(3,23,1,1)\n"
      "w(3,33,2,2)\nw(1,31,2,2)\n";
  const std::string first_two =
      "r(1,11,3,3)\nr(2,22,3,3)\n"   // 0 before 1
      "r(2,22,4,4)\nr(3,33,4,4)\n";  // 1 before 2
  EXPECT_TRUE(is_right(writers + first_two));
  const HistoryAnomaly anomaly = shown(writers + first_two + "r(3,33,5,5)\nr(1,11,5,5)\n");  // 2 before 0
  EXPECT_EQ(anomaly.kind, Kind::fractured_read);
  EXPECT_EQ(anomaly.evidence.size(), 3);
}

TEST(KvAnomalies, NonMonotonicRead) {
  const HistoryAnomaly anomaly = shown(
      "w(1,5,0,0)\n"
      "w(1,6,0,1)\n"
      "r(1,6,1,2)\n"
      "r(1,5,1,3)\n");
  EXPECT_EQ(anomaly.kind, Kind::non_monotonic_read);
  EXPECT_THAT(anomaly.evidence, ElementsAre(AllOf(HasSubstr("r(1,5,1,3) at"), HasSubstr("r(1,6,1,2) at")),
                                            HasSubstr("transaction 0 of session 0 before transaction 1 of session 0")));
  EXPECT_TRUE(
      is_right("w(1,5,0,0)\n"
               "w(1,6,0,1)\n"
               "r(1,5,1,2)\n"
               "r(1,6,1,3)\n"));
}

TEST(KvAnomalies, NonMonotonicReadOfTheInitialValue) {
  EXPECT_EQ(shown("w(1,5,0,0)\n"
                  "r(1,5,1,1)\n"
                  "r(2,0,1,2)\n"
                  "r(1,0,1,3)\n")
                .kind,
            Kind::non_monotonic_read);
}

// Two sessions may see two writers in one order only.
TEST(KvAnomalies, NonMonotonicReadOfSessionsThatDisagree) {
  const std::string writers =
      "w(1,5,0,0)\n"
      "w(1,6,1,1)\n";
  const std::string one = "r(1,5,2,2)\nr(1,6,2,3)\n";
  EXPECT_TRUE(is_right(writers + one));
  EXPECT_EQ(shown(writers + one + "r(1,6,3,4)\nr(1,5,3,5)\n").kind, Kind::non_monotonic_read);
}

// It may take effect late, even after what its session does next; but whole, and not before what the session did first.
TEST(KvAnomalies, UnknownOutcomesBindNoReaderUntilSeen) {
  const std::string unknown =
      "w(1,4,0,0)\n"
      "w(1,5,0,1)\n"
      "w(2,6,0,1)\n"
      "u(0,1)\n"
      "r(1,4,0,2)\n";
  EXPECT_TRUE(is_right(unknown + "r(1,4,1,3)\nr(2,0,1,3)\n"));
  EXPECT_TRUE(is_right(unknown + "r(1,5,1,3)\nr(2,6,1,3)\n"));
  EXPECT_EQ(shown(unknown + "r(1,5,1,3)\nr(2,0,1,3)\n").kind, Kind::fractured_read);
  EXPECT_EQ(shown(unknown + "r(1,5,1,3)\nr(1,4,1,4)\n").kind, Kind::non_monotonic_read);
}

// Read Atomic forbids neither: docs/kv_histories.md says so loudly.
TEST(KvAnomalies, LostUpdatesAndWriteSkewAreRight) {
  EXPECT_TRUE(
      is_right("r(1,0,0,0)\n"
               "w(1,5,0,0)\n"
               "r(1,0,1,1)\n"
               "w(1,6,1,1)\n"));
  EXPECT_TRUE(
      is_right("r(1,0,0,0)\n"
               "w(2,5,0,0)\n"
               "r(2,0,1,1)\n"
               "w(1,6,1,1)\n"));
}

// A cycle of thousands is too long to read: the shortest way round is told, and a session's order in one sentence.
TEST(KvAnomalies, AreToldInFewSentences) {
  std::string text;
  for (int each = 1; each <= 2000; ++each) {
    text += "w(1," + std::to_string(each) + ",0," + std::to_string(each) + ")\n";
    text += "r(1," + std::to_string(each) + ",1," + std::to_string(each) + ")\n";
  }
  const HistoryAnomaly anomaly = shown(text + "r(1,1,1,2001)\n");
  EXPECT_EQ(anomaly.kind, Kind::non_monotonic_read);
  EXPECT_EQ(anomaly.evidence.size(), 2);
}

}  // namespace
}  // namespace farside::test
