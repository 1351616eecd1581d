// A session's puts while a server does not answer: what stays prepared at the others, and what is settled when it is
// back.
#include <vector>

#include <gtest/gtest.h>

#include "tests/kv/client/writer_fixture.h"

namespace farside::kv {
namespace {

// Otherwise each of its puts would leave something at the others until the server is back.
TEST_F(KvWriter, LeavesNothingWithOthersWhileAServerIsAway) {
  requests_.lose_requests_to(1);
  EXPECT_EQ(put_everywhere(), PutOutcome::unknown);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(put_everywhere(), PutOutcome::unknown);
  EXPECT_LE(prepared_at(0), 1);
  EXPECT_LE(prepared_at(2), 1);
  requests_.answer_again();
  EXPECT_EQ(put_everywhere(), PutOutcome::done);
}

// What it wrote afterwards is settled as well, as soon as the servers know what became of that one.
TEST_F(KvWriter, SettlesAgainWhenADoubtIsOver) {
  requests_.lose_replies_of(1, 1);
  EXPECT_EQ(put_everywhere(), PutOutcome::unknown) << "it is committed, but who knows";
  const Timestamp doubtful = session_.last_put();
  requests_.answer_again();
  EXPECT_EQ(put_everywhere(), PutOutcome::done);
  const Timestamp next = session_.last_put();
  EXPECT_EQ(put_everywhere(), PutOutcome::done);
  for (ServerNumber server = 0; server < kServers; ++server) {
    EXPECT_EQ(mark_at(server, doubtful) & RecordHead::kSettled, RecordHead::kSettled);
    EXPECT_EQ(mark_at(server, next) & RecordHead::kSettled, RecordHead::kSettled);
  }
}

// A server that stood still may do afterwards what it was asked: marks of other servers must not say by then that it is
// over, for readers would forget what they have seen of it.
class KvWriterInDoubt : public KvWriter, public testing::WithParamInterface<bool> {
 protected:
  /// Whether what `session` puts at a server is settled above a put that another one may still do.
  bool settles_above_a_late_put(AtomicSession& session) {
    const Write slow{keys_[0], "slow"};
    requests_.delay_requests_to(0);
    IndependentPut put{{&slow, 1}};
    if (GetParam()) {  // one of several
      session.put_each({&put, 1}, servers_.soon());
    } else {
      put.outcome = session.put_all({&slow, 1}, servers_.soon());
    }
    EXPECT_EQ(put.outcome, PutOutcome::unknown);
    EXPECT_EQ(put_next(session), PutOutcome::done);
    above_ = session.last_put();
    EXPECT_EQ(put_next(session), PutOutcome::done);
    return is_settled();
  }
  PutOutcome put_next(AtomicSession& session) {
    const Write next{keys_[1], "next"};
    return session.put_all({&next, 1}, servers_.soon());
  }
  [[nodiscard]] bool is_settled() { return (mark_at(1, above_) & RecordHead::kSettled) != 0; }

 private:
  Timestamp above_;
};

TEST_P(KvWriterInDoubt, SettlesNothingAboveAPutThatItsOneServerMayStillDo) {
  EXPECT_FALSE(settles_above_a_late_put(session_));
  requests_.deliver_late();
  EXPECT_EQ(put_next(session_), PutOutcome::done) << "it asks what became of that";
  EXPECT_EQ(put_next(session_), PutOutcome::done);
  EXPECT_TRUE(is_settled());
  EXPECT_TRUE(servers_.store_of(keys_[0]).newest(keys_[0]));
}

using KvWriterInDoubtRules = KvWriterInDoubt;
TEST_P(KvWriterInDoubtRules, CatchesASessionThatTakesItForOver) {
  const KvRules broken{.keeps_puts_at_one_server_in_doubt = false};
  AtomicSession session(servers_.fabric(), servers_.channel(), requests_, servers_.memories(), {.session = 2}, broken);
  EXPECT_TRUE(settles_above_a_late_put(session));
}
constexpr auto kNameOfPuts = [](const testing::TestParamInfo<bool>& each) {
  return each.param ? "OfSeveral" : "OneAtATime";
};
INSTANTIATE_TEST_SUITE_P(Puts, KvWriterInDoubt, testing::Bool(), kNameOfPuts);
INSTANTIATE_TEST_SUITE_P(Puts, KvWriterInDoubtRules, testing::Bool(), kNameOfPuts);

// Otherwise it would remember more and more, and so would the servers that answer.
TEST_F(KvWriter, RefusesWhatASilentServerHasPartInWhenItsDoubtsAreMany) {
  requests_.lose_requests_to(1);
  PutOutcome outcome = PutOutcome::unknown;
  int doubts = 0;
  for (; outcome == PutOutcome::unknown && doubts < 10'000; ++doubts) outcome = put_at(1);
  EXPECT_EQ(outcome, PutOutcome::unwritable) << doubts;
  EXPECT_EQ(put_at(0), PutOutcome::done) << "the others serve it";
  EXPECT_EQ(put_everywhere(), PutOutcome::unwritable);
  requests_.answer_again();
  EXPECT_EQ(put_at(1), PutOutcome::done);
}

TEST_F(KvWriter, RefusesWhatCannotBeSentWhenItsDoubtsAreMany) {
  requests_.refuse_requests_to(1);
  PutOutcome outcome = PutOutcome::unknown;
  for (int doubts = 0; outcome == PutOutcome::unknown && doubts < 10'000; ++doubts) outcome = put_at(1);
  EXPECT_EQ(outcome, PutOutcome::unwritable);
}

TEST_F(KvWriter, AServerThatMissesOneDeadlineIsAskedAgainWhateverAnotherOnesDoubts) {
  requests_.lose_requests_to(1);
  while (put_at(1) == PutOutcome::unknown) {
  }
  requests_.lose_requests_to(2);
  EXPECT_EQ(put_at(2), PutOutcome::unknown);
  requests_.answer_again();
  requests_.lose_requests_to(1);
  EXPECT_EQ(put_at(2), PutOutcome::done);
}

TEST_F(KvWriter, AsksAServerAgainThatIsBackWhileAnotherOneIsNot) {
  requests_.lose_requests_to(1);
  EXPECT_EQ(put_at(1), PutOutcome::unknown) << "the oldest doubt, for good";
  requests_.lose_requests_to(2);
  while (put_at(2) == PutOutcome::unknown) {
  }
  requests_.answer_again();
  requests_.lose_requests_to(1);
  EXPECT_EQ(put_at(2), PutOutcome::done);
}

// Those that were silent before are asked first; when that is all of them, all have been asked.
TEST_F(KvWriter, DoubtsWhatNoServerAnswered) {
  requests_.lose_all_replies();
  for (const std::string& key : keys_) {
    const Write write{key, "x"};
    EXPECT_EQ(session_.put_all({&write, 1}, servers_.soon()), PutOutcome::unknown);
  }
  EXPECT_EQ(put_everywhere(), PutOutcome::unknown) << "it is prepared everywhere";
  requests_.answer_again();
  EXPECT_EQ(put_everywhere(), PutOutcome::done);
  const Timestamp before = session_.last_put();
  EXPECT_EQ(put_everywhere(), PutOutcome::done);
  EXPECT_EQ(mark_at(0, before) & RecordHead::kSettled, 0);
}

// A part of it may be prepared only, and a reader that has seen another part must remember it.
TEST_F(KvWriter, SettlesNothingWhileItMayBePreparedSomewhere) {
  requests_.lose_replies_of(1, 0);
  EXPECT_EQ(put_everywhere(), PutOutcome::unknown);
  const Timestamp doubtful = session_.last_put();
  requests_.answer_again();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(put_everywhere(), PutOutcome::done);
  const Timestamp before = session_.last_put();
  EXPECT_EQ(put_everywhere(), PutOutcome::done);
  EXPECT_EQ(mark_at(0, before) & RecordHead::kSettled, 0);
  for (ServerNumber server = 0; server < kServers; ++server) servers_.store_of(keys_[server]).abort(doubtful);
  EXPECT_EQ(put_everywhere(), PutOutcome::done);
  EXPECT_EQ(put_everywhere(), PutOutcome::done);
  EXPECT_EQ(mark_at(0, before) & RecordHead::kSettled, RecordHead::kSettled);
}

// Of a put of one key there is nothing to find out: the server does it, or it bars it when it hears of the next.
TEST_F(KvWriter, SettlesWhatIsPutAlone) {
  requests_.lose_replies_of(1, 0);
  EXPECT_EQ(session_.put_all(std::vector<Write>{{keys_[1], "b"}}, servers_.soon()), PutOutcome::unknown);
  requests_.answer_again();
  EXPECT_EQ(put_everywhere(), PutOutcome::done);
  const Timestamp next = session_.last_put();
  EXPECT_EQ(put_everywhere(), PutOutcome::done);
  EXPECT_EQ(mark_at(0, next) & RecordHead::kSettled, RecordHead::kSettled);
}

}  // namespace
}  // namespace farside::kv
