// Several puts of a session that are under way at once, and what of them one message carries.
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "farside/base/error.h"

#include "tests/kv/client/writer_fixture.h"

namespace farside::kv {
namespace {

using KvSeveralPuts = KvWriter;

// All that a call of put_all would do for each.
TEST_F(KvSeveralPuts, PutsEachOfSeveralByItself) {
  const std::vector<Write> everywhere{{keys_[0], "a"}, {keys_[1], "a"}, {keys_[2], "a"}};
  const Write alone{keys_[1], "b"};
  const Write refused{.key = keys_[2], .value = "c", .expected = Timestamp{77, 7}};
  std::vector<IndependentPut> puts{{everywhere}, {{&alone, 1}}, {{&refused, 1}}, {{}}, {everywhere}};
  session_.put_each(puts, servers_.soon());
  for (const std::size_t done : {0, 1, 3, 4}) EXPECT_EQ(puts[done].outcome, PutOutcome::done) << done;
  EXPECT_EQ(puts[2].outcome, PutOutcome::differs);
  const auto got = session_.get_all(std::vector<std::string_view>{keys_[0], keys_[1], keys_[2]}, servers_.soon());
  ASSERT_EQ(got.status, Outcome::done);
  for (const Got& each : got.value) EXPECT_EQ(each.version, puts[4].version);
  for (ServerNumber server = 0; server < kServers; ++server) EXPECT_EQ(prepared_at(server), 0);
  EXPECT_EQ(put_everywhere(), PutOutcome::done);
  for (const std::size_t put : {0, 4}) {
    EXPECT_EQ(mark_at(1, puts[put].version) & RecordHead::kSettled, RecordHead::kSettled);
  }
}

// There is no other server whose answer it would have to wait for between prepare and commit.
TEST_F(KvSeveralPuts, AsksOnceWhereOneServerHasAllKeys) {
  const std::string other = key_of_server(1, kServers, 1);
  const std::vector<Write> writes{{keys_[1], "a"}, {other, "b"}};
  const int before = requests_.sent();
  EXPECT_EQ(session_.put_all(writes, servers_.soon()), PutOutcome::done);
  std::vector<IndependentPut> puts{{writes}, {writes}};
  session_.put_each(puts, servers_.soon());
  EXPECT_EQ(requests_.sent() - before, 2);
  for (const IndependentPut& put : puts) EXPECT_EQ(put.outcome, PutOutcome::done);
  const auto got = session_.get_all(std::vector<std::string_view>{keys_[1], other}, servers_.soon());
  ASSERT_EQ(got.status, Outcome::done);
  for (const Got& each : got.value) EXPECT_EQ(each.version, puts[1].version);
  EXPECT_EQ(mark_at(1, puts[1].version) & RecordHead::kEverywhere, RecordHead::kEverywhere);
}

TEST_F(KvSeveralPuts, WritesAllOrNothingWhereOneServerHasAllKeys) {
  const std::string other = key_of_server(1, kServers, 1);
  const std::vector<Write> writes{{keys_[1], "a"}, {.key = other, .value = "b", .expected = Timestamp{77, 7}}};
  EXPECT_EQ(session_.put_all(writes, servers_.soon()), PutOutcome::differs);
  EXPECT_FALSE(servers_.store_of(other).newest(keys_[1]));
  EXPECT_EQ(prepared_at(1), 0);
}

// Messages are most of what a small put costs.
TEST_F(KvSeveralPuts, SendsWhatGoesToOneServerTogether) {
  const std::vector<Write> everywhere{{keys_[0], "a"}, {keys_[1], "a"}, {keys_[2], "a"}};
  const Write alone{keys_[1], "b"};
  std::vector<IndependentPut> puts;
  for (int i = 0; i < 20; ++i) puts.insert(puts.end(), {{everywhere}, {{&alone, 1}}});
  const int before = requests_.sent();
  session_.put_each(puts, servers_.soon());
  EXPECT_EQ(requests_.sent() - before, 2 * kServers);
  for (const IndependentPut& put : puts) EXPECT_EQ(put.outcome, PutOutcome::done);
}

// A message of several is not much longer than one.
TEST_F(KvSeveralPuts, SendsLargePutsByThemselves) {
  const std::string value(100'000, 'v');
  const Write large{keys_[1], value};
  const Write small{keys_[1], "b"};
  std::vector<IndependentPut> puts{{{&small, 1}}, {{&large, 1}}, {{&large, 1}}, {{&small, 1}}, {{&small, 1}}};
  const int before = requests_.sent();
  session_.put_each(puts, servers_.soon());
  EXPECT_EQ(requests_.sent() - before, 4);
  for (const IndependentPut& put : puts) EXPECT_EQ(put.outcome, PutOutcome::done);
  const auto got = session_.get_all(std::vector<std::string_view>{keys_[1]}, servers_.soon());
  ASSERT_EQ(got.status, Outcome::done);
  EXPECT_EQ(got.value.front().version, puts.back().version);
}

// Also those that would have gone out already to make room.
TEST_F(KvSeveralPuts, SendsNoneOfSeveralWhenOneIsTooLarge) {
  const std::string value(100'000, 'v');
  const Write first{keys_[1], value};
  const Write second{keys_[1], "b"};
  const std::string large(kMaxValueBytes, 'v');
  std::vector<std::string> keys;
  for (std::uint64_t i = 0; i < 5; ++i) keys.push_back(key_of_server(1, kServers, i + 1));
  std::vector<Write> too_large;
  for (const std::string& key : keys) too_large.push_back({key, large});
  std::vector<IndependentPut> puts{{{&first, 1}}, {{&second, 1}}, {too_large}};
  const int before = requests_.sent();
  EXPECT_THROW(session_.put_each(puts, servers_.soon()), UsageError);
  EXPECT_EQ(requests_.sent(), before);
  EXPECT_EQ(put_everywhere(), PutOutcome::done);
  EXPECT_FALSE(servers_.store_of(keys_[1]).newest(keys[0]));
}

// What is known of one is not known of another.
TEST_F(KvSeveralPuts, DoubtsOnlyThoseOfSeveralWhoseServerIsSilent) {
  const std::vector<Write> everywhere{{keys_[0], "a"}, {keys_[1], "a"}, {keys_[2], "a"}};
  const Write here{keys_[0], "b"};
  const Write there{keys_[1], "c"};
  requests_.lose_requests_to(1);
  for (int i = 0; i < 2; ++i) {  // when it is not known to be silent, and when it is
    std::vector<IndependentPut> puts{{everywhere}, {{&here, 1}}, {{&there, 1}}};
    session_.put_each(puts, servers_.soon());
    EXPECT_EQ(puts[0].outcome, PutOutcome::unknown);
    EXPECT_EQ(puts[1].outcome, PutOutcome::done);
    EXPECT_EQ(puts[2].outcome, PutOutcome::unknown);
    EXPECT_LE(prepared_at(0), 1);
  }
  const Timestamp after = session_.last_put();
  requests_.answer_again();
  EXPECT_EQ(put_everywhere(), PutOutcome::done);
  EXPECT_EQ(put_everywhere(), PutOutcome::done);
  EXPECT_NE(after, session_.last_put());
}

// In both rounds of a put at two servers.
TEST_F(KvSeveralPuts, EndsPutsThatNeedNoServerThatDoesNotAnswer) {
  const std::vector<Write> others{{keys_[0], "a"}, {keys_[2], "a"}};
  const Write held{keys_[1], "b"};
  const Write here{keys_[2], "c"};
  std::vector<IndependentPut> puts{{{&held, 1}}, {others}, {{&here, 1}}};
  requests_.hold_replies_of(1);
  std::vector<const IndependentPut*> ended;
  session_.put_each(puts, servers_.soon(), [&](const IndependentPut& put) {
    EXPECT_EQ(put.outcome, PutOutcome::done);
    ended.push_back(&put);
    if (ended.size() == 2) requests_.answer_again();
  });
  EXPECT_EQ(ended, (std::vector<const IndependentPut*>{&puts[2], &puts[1], &puts[0]}));
  EXPECT_EQ(put_everywhere(), PutOutcome::done);
}

// The oldest of a session's doubts is the first one that it began, not the first that it knew of.
TEST_F(KvSeveralPuts, SettlesNothingAboveADoubtThatItLearnsOfLater) {
  const std::vector<Write> writes{{keys_[1], "a"}, {keys_[0], "b"}, {keys_[2], "c"}};
  std::vector<IndependentPut> puts;
  for (const Write& write : writes) puts.push_back({{&write, 1}});
  requests_.hold_replies_of(1);
  requests_.lose_replies_of(2, 0);
  session_.put_each(puts, servers_.soon(), [&](const IndependentPut& put) {
    if (&put != &puts[2]) return;
    requests_.answer_again();
    requests_.lose_replies_of(1, 0);
  });
  EXPECT_EQ(puts[0].outcome, PutOutcome::unknown);
  EXPECT_EQ(puts[1].outcome, PutOutcome::done);
  EXPECT_EQ(puts[2].outcome, PutOutcome::unknown);
  EXPECT_EQ(put_at(0), PutOutcome::done);
  EXPECT_EQ(mark_at(0, puts[1].version) & RecordHead::kSettled, 0);
  requests_.answer_again();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(put_everywhere(), PutOutcome::done);
  EXPECT_EQ(mark_at(0, puts[1].version) & RecordHead::kSettled, RecordHead::kSettled);
}

}  // namespace
}  // namespace farside::kv
