// A session's puts while a server does not answer: what stays prepared at the others, and what is settled when it is
// back.
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "farside/base/error.h"

#include "tests/kv/local_servers.h"

namespace farside::kv {
namespace {

constexpr ServerNumber kServers = 3;

/// Of servers that are away no request is answered, and none that is `deaf` gets there.
class PatchyRequests final : public Requests {
 public:
  explicit PatchyRequests(LocalServers& servers) : local_(servers) {}

  void lose_requests_to(ServerNumber server) { deaf_.insert(server); }
  void refuse_requests_to(ServerNumber server) { refused_ = server; }
  /// From the one after so many on.
  void lose_replies_of(ServerNumber server, int after) {
    mute_ = server;
    replies_left_ = after;
  }
  void lose_all_replies() { are_all_mute_ = true; }
  /// What is sent to the server from now on comes when `deliver_late` is called.
  void delay_requests_to(ServerNumber server) { slow_ = server; }
  void deliver_late() {
    const ServerNumber server = std::exchange(slow_, std::nullopt).value();
    for (const Message& request : std::exchange(delayed_, {})) {
      EXPECT_EQ(local_.send(server, request, {}), Outcome::done);
      EXPECT_EQ(local_.receive(server, {}).status, Outcome::done);
    }
  }
  /// They come when `answer_again` is called.
  void hold_replies_of(ServerNumber server) { held_ = server; }
  void answer_again() {
    held_.reset();
    deaf_.clear();
    mute_.reset();
    are_all_mute_ = false;
  }

  [[nodiscard]] ServerNumber servers() const override { return local_.servers(); }
  Outcome send(ServerNumber server, std::span<const std::byte> request, Deadline deadline) override {
    if (refused_ == server) return Outcome::peer_lost;
    if (slow_ == server) {
      delayed_.emplace_back(request.begin(), request.end());
      return Outcome::done;
    }
    return deaf_.contains(server) ? Outcome::done : local_.send(server, request, deadline);
  }
  Result<Message> receive(ServerNumber server, Deadline deadline) override {
    if (deaf_.contains(server) || slow_ == server) return {Outcome::timed_out, {}};
    auto received = local_.receive(server, deadline);
    const bool is_mute = are_all_mute_ || (mute_ == server && replies_left_-- <= 0);
    if (is_mute) return {Outcome::timed_out, {}};
    return received;
  }
  Outcome await(ServerNumber server, Deadline /*deadline*/) override {
    return held_ == server ? Outcome::timed_out : Outcome::done;
  }
  [[nodiscard]] bool has_reply(ServerNumber server) override { return local_.has_reply(server); }
  [[nodiscard]] int sent() const noexcept { return local_.sent(); }

 private:
  LocalRequests local_;
  std::set<ServerNumber> deaf_;
  std::optional<ServerNumber> refused_;
  std::optional<ServerNumber> mute_;
  std::optional<ServerNumber> slow_;
  std::optional<ServerNumber> held_;
  std::vector<Message> delayed_;
  int replies_left_ = 0;
  bool are_all_mute_ = false;
};

class KvWriter : public testing::Test {
 protected:
  KvWriter() {
    for (ServerNumber server = 0; server < kServers; ++server) keys_[server] = key_of_server(server, kServers);
  }

  PutOutcome put_everywhere() {
    const std::vector<Write> writes{{keys_[0], "a"}, {keys_[1], "b"}, {keys_[2], "c"}};
    return session_.put_all(writes, servers_.soon());
  }
  PutOutcome put_at(ServerNumber server) {
    const Write write{keys_[server], "x"};
    return session_.put_all({&write, 1}, servers_.soon());
  }
  [[nodiscard]] std::size_t prepared_at(ServerNumber server) {
    return servers_.store_of(keys_[server]).doubtful(servers_.fabric().in(std::chrono::hours(1)).at).size();
  }
  [[nodiscard]] std::uint64_t mark_at(ServerNumber server, const Timestamp& version) {
    Store& store = servers_.store_of(keys_[server]);
    const auto bytes = store.record(store.at(keys_[server], version).value());
    return mark_bits(read_record(bytes, 0, keys_[server]).value().head.mark);
  }

  LocalServers servers_{kServers};
  std::array<std::string, kServers> keys_;  // one of each server
  PatchyRequests requests_{servers_};
  AtomicSession session_{servers_.fabric(),
                         servers_.channel(),
                         requests_,
                         servers_.memories(),
                         {.session = 1, .grace = std::chrono::nanoseconds(1)}};
};

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
  const KvRules broken{.doubts_puts_at_one_server = false};
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

// All that a call of put_all would do for each.
TEST_F(KvWriter, PutsEachOfSeveralByItself) {
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
TEST_F(KvWriter, AsksOnceWhereOneServerHasAllKeys) {
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

TEST_F(KvWriter, WritesAllOrNothingWhereOneServerHasAllKeys) {
  const std::string other = key_of_server(1, kServers, 1);
  const std::vector<Write> writes{{keys_[1], "a"}, {.key = other, .value = "b", .expected = Timestamp{77, 7}}};
  EXPECT_EQ(session_.put_all(writes, servers_.soon()), PutOutcome::differs);
  EXPECT_FALSE(servers_.store_of(other).newest(keys_[1]));
  EXPECT_EQ(prepared_at(1), 0);
}

// Messages are most of what a small put costs.
TEST_F(KvWriter, SendsWhatGoesToOneServerTogether) {
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
TEST_F(KvWriter, SendsLargePutsByThemselves) {
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
TEST_F(KvWriter, SendsNoneOfSeveralWhenOneIsTooLarge) {
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
TEST_F(KvWriter, DoubtsOnlyThoseOfSeveralWhoseServerIsSilent) {
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
TEST_F(KvWriter, EndsPutsThatNeedNoServerThatDoesNotAnswer) {
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
TEST_F(KvWriter, SettlesNothingAboveADoubtThatItLearnsOfLater) {
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
