// Sessions on stores in this process: what a get finds while a transaction is under way, step by step, whichever way
// it reads and whatever versions know of their siblings.
#include <array>
#include <new>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "farside/base/error.h"

#include "kv/protocol/siblings.h"
#include "tests/kv/service/local_servers.h"

namespace farside::kv {
namespace {

constexpr ServerNumber kServers = 3;

class Sessions : public testing::TestWithParam<std::tuple<ReadWay, SiblingsKind>> {
 protected:
  [[nodiscard]] SessionSettings settings(std::uint64_t number) const {
    SessionSettings settings;
    settings.session = number;
    settings.way = std::get<0>(GetParam());
    settings.siblings = std::get<1>(GetParam());
    settings.cached_keys = 64;
    return settings;
  }

  std::vector<std::string> get(LocalSession& from, const std::vector<std::string_view>& keys) {
    const auto got = from.session.get_all(keys, servers_.soon());
    EXPECT_EQ(got.status, Outcome::done);
    std::vector<std::string> values;
    for (const Got& each : got.value) values.emplace_back(each.present ? each.value : "(absent)");
    return values;
  }
  PutOutcome put(LocalSession& by, const std::vector<Write>& writes) {
    return by.session.put_all(writes, servers_.soon());
  }
  PutOutcome put_if(LocalSession& by, std::string_view key, std::string_view value, const Timestamp& expected) {
    return put(by, {{.key = key, .value = value, .expected = expected}});
  }
  Timestamp version(LocalSession& from, std::string_view key) {
    const auto got = from.session.get_all({&key, 1}, servers_.soon());
    EXPECT_EQ(got.status, Outcome::done);
    return got.done() ? got.value.front().version : Timestamp{};
  }
  /// As another session prepares it, which is then to commit.
  Timestamp prepare(const std::vector<Write>& writes) {
    const Timestamp timestamp = clock_.next();
    std::vector<KeyId> keys;
    std::vector<ServerNumber> servers;
    for (const Write& write : writes) keys.push_back(key_id(write.key));
    for (const KeyId& key : keys) servers.push_back(server_of(key, kServers));
    const SiblingsKind kind = std::get<1>(GetParam());
    const auto siblings = make_siblings(kind, keys);
    for (const Write& write : writes) {
      const auto answered = servers_.store_of(write.key).prepare({timestamp, {kind, siblings}, servers, {&write, 1}});
      EXPECT_EQ(answered.answer, Answer::done);
    }
    return timestamp;
  }

  LocalServers servers_{kServers};
  HybridClock clock_{servers_.fabric(), 99, {}};
};

INSTANTIATE_TEST_SUITE_P(AllWays, Sessions,
                         testing::Combine(testing::Values(ReadWay::ask, ReadWay::addresses, ReadWay::cells),
                                          testing::Values(SiblingsKind::list, SiblingsKind::filter,
                                                          SiblingsKind::none)));

// Keys that are on different servers.
const std::vector<std::string_view> kKeys = [] {
  static std::vector<std::string> names(kServers);
  for (int i = 0; std::ranges::any_of(names, &std::string::empty); ++i) {
    const std::string name = "key " + std::to_string(i);
    names[server_of(key_id(name), kServers)] = name;
  }
  return std::vector<std::string_view>(names.begin(), names.end());
}();

TEST_P(Sessions, FindWhatWasPut) {
  LocalSession writer(servers_, settings(1));
  LocalSession reader(servers_, settings(2));
  EXPECT_EQ(get(reader, kKeys), (std::vector<std::string>{"(absent)", "(absent)", "(absent)"}));
  ASSERT_EQ(put(writer, {{kKeys[0], "a"}, {kKeys[1], "b"}}), PutOutcome::done);
  EXPECT_EQ(get(reader, kKeys), (std::vector<std::string>{"a", "b", "(absent)"}));
  ASSERT_EQ(put(writer, {{kKeys[1], "c"}}), PutOutcome::done);
  EXPECT_EQ(get(reader, kKeys), (std::vector<std::string>{"a", "c", "(absent)"}));
}

TEST_P(Sessions, CarryValuesOfAnySize) {
  LocalSession session(servers_, settings(1));
  for (const std::size_t bytes : {0, 1, 15, 16, 17, 400, 433, 512, 5000, 1 << 20}) {
    const std::string value(bytes, 'x');
    ASSERT_EQ(put(session, {{kKeys[0], value}, {kKeys[1], "beside"}}), PutOutcome::done);
    EXPECT_EQ(get(session, {kKeys[0]}), std::vector<std::string>{value}) << bytes;
  }
}

TEST_P(Sessions, SeeNothingOfWhatIsOnlyPrepared) {
  LocalSession session(servers_, settings(1));
  ASSERT_EQ(put(session, {{kKeys[0], "a"}, {kKeys[1], "b"}}), PutOutcome::done);
  (void)prepare({{kKeys[0], "x"}, {kKeys[1], "y"}});
  EXPECT_EQ(get(session, kKeys), (std::vector<std::string>{"a", "b", "(absent)"}));
}

TEST_P(Sessions, SeeAllOfWhatIsCommittedInPart) {
  LocalSession session(servers_, settings(1));
  ASSERT_EQ(put(session, {{kKeys[0], "a"}, {kKeys[1], "b"}}), PutOutcome::done);
  EXPECT_EQ(get(session, kKeys), (std::vector<std::string>{"a", "b", "(absent)"}));
  const Timestamp transaction = prepare({{kKeys[0], "x"}, {kKeys[1], "y"}, {kKeys[2], "z"}});
  ASSERT_EQ(servers_.store_of(kKeys[1]).commit(transaction).answer, Answer::done);
  EXPECT_EQ(get(session, kKeys), (std::vector<std::string>{"x", "y", "z"}));
}

// Also in a later get that does not read the part which was committed.
TEST_P(Sessions, SeeWhatBelongsToWhatTheySaw) {
  LocalSession session(servers_, settings(1));
  ASSERT_EQ(put(session, {{kKeys[0], "a"}, {kKeys[1], "b"}}), PutOutcome::done);
  const Timestamp transaction = prepare({{kKeys[0], "x"}, {kKeys[1], "y"}});
  ASSERT_EQ(servers_.store_of(kKeys[1]).commit(transaction).answer, Answer::done);
  EXPECT_EQ(get(session, {kKeys[1]}), std::vector<std::string>{"y"});
  EXPECT_EQ(get(session, {kKeys[0]}), std::vector<std::string>{"x"});
}

// T1 and T2 prepare, T1 commits, T2 commits: a session that remembers where T1's version is must notice.
TEST_P(Sessions, NoticeEachNewVersion) {
  LocalSession session(servers_, settings(1));
  ASSERT_EQ(put(session, {{kKeys[0], "first"}}), PutOutcome::done);
  EXPECT_EQ(get(session, {kKeys[0]}), std::vector<std::string>{"first"});
  const Timestamp one = prepare({{kKeys[0], "one"}});
  const Timestamp two = prepare({{kKeys[0], "two"}});
  EXPECT_EQ(get(session, {kKeys[0]}), std::vector<std::string>{"first"});
  ASSERT_EQ(servers_.store_of(kKeys[0]).commit(one).answer, Answer::done);
  EXPECT_EQ(get(session, {kKeys[0]}), std::vector<std::string>{"one"});
  ASSERT_EQ(servers_.store_of(kKeys[0]).commit(two).answer, Answer::done);
  EXPECT_EQ(get(session, {kKeys[0]}), std::vector<std::string>{"two"});
}

TEST_P(Sessions, FindErasedKeysAbsent) {
  LocalSession session(servers_, settings(1));
  ASSERT_EQ(put(session, {{kKeys[0], "a"}, {kKeys[1], "b"}}), PutOutcome::done);
  ASSERT_EQ(put(session, {{.key = kKeys[0], .value = {}, .erase = true}, {kKeys[1], "c"}}), PutOutcome::done);
  EXPECT_EQ(get(session, kKeys), (std::vector<std::string>{"(absent)", "c", "(absent)"}));
}

TEST_P(Sessions, SetOnlyWhatIsAsExpected) {
  LocalSession session(servers_, settings(1));
  ASSERT_EQ(put_if(session, kKeys[0], "a", {}), PutOutcome::done);
  EXPECT_EQ(put_if(session, kKeys[0], "b", {}), PutOutcome::differs);
  ASSERT_EQ(put_if(session, kKeys[0], "c", session.session.last_put()), PutOutcome::differs) << "no put wrote that";
  ASSERT_EQ(put_if(session, kKeys[0], "c", version(session, kKeys[0])), PutOutcome::done);
  EXPECT_EQ(get(session, {kKeys[0]}), std::vector<std::string>{"c"});
}

// On several servers, of which one finds that it differs.
TEST_P(Sessions, SetAllOrNothingOfWhatIsExpected) {
  LocalSession session(servers_, settings(1));
  ASSERT_EQ(put(session, {{kKeys[0], "a"}, {kKeys[1], "b"}}), PutOutcome::done);
  const Timestamp before = version(session, kKeys[0]);
  const std::vector<Write> writes{{.key = kKeys[0], .value = "x", .expected = before},
                                  {.key = kKeys[1], .value = "y", .expected = before},
                                  {.key = kKeys[2], .value = "z"}};
  ASSERT_EQ(put(session, {{kKeys[1], "c"}}), PutOutcome::done);
  EXPECT_EQ(put(session, writes), PutOutcome::differs);
  EXPECT_EQ(get(session, kKeys), (std::vector<std::string>{"a", "c", "(absent)"}));
}

// Who prepared first has it, until what it prepared is finished: by its client, or by the servers when that has died.
TEST_P(Sessions, SetWhatIsExpectedWhenWhatWasInTheWayIsFinished) {
  LocalSession session(servers_, settings(1));
  ASSERT_EQ(put(session, {{kKeys[0], "a"}, {kKeys[1], "b"}}), PutOutcome::done);
  const Timestamp before = version(session, kKeys[0]);
  const std::vector<Write> writes{{.key = kKeys[0], .value = "x", .expected = before},
                                  {.key = kKeys[1], .value = "y", .expected = before}};
  const Timestamp other = prepare({{kKeys[1], "other"}});
  EXPECT_EQ(put(session, writes), PutOutcome::differs);
  servers_.store_of(kKeys[1]).abort(other);
  EXPECT_EQ(put(session, writes), PutOutcome::done);
}

// The expected version stays when a server finds the first timestamp behind.
TEST_P(Sessions, SetWhatIsExpectedThoughTheirClockLags) {
  SessionSettings ahead = settings(1);
  ahead.wall.ahead = std::chrono::hours(1);
  LocalSession early(servers_, ahead);
  LocalSession late(servers_, settings(2));
  ASSERT_EQ(put(late, {{kKeys[0], "a"}}), PutOutcome::done);
  const Timestamp before = version(late, kKeys[0]);
  ASSERT_EQ(put(early, {{kKeys[1], "b"}}), PutOutcome::done);
  EXPECT_EQ(put(late, {{.key = kKeys[0], .value = "x", .expected = before}, {kKeys[1], "y"}}), PutOutcome::done);
  EXPECT_EQ(put(late, {{.key = kKeys[0], .value = "z", .expected = before}, {kKeys[1], "z"}}), PutOutcome::differs);
  EXPECT_EQ(get(late, kKeys), (std::vector<std::string>{"x", "y", "(absent)"}));
}

// A clock that lags: the put is higher than what it comes after nevertheless.
TEST_P(Sessions, SeeTheirOwnPutsThoughTheirClockLags) {
  SessionSettings ahead = settings(1);
  ahead.wall.ahead = std::chrono::hours(1);
  LocalSession early(servers_, ahead);
  LocalSession late(servers_, settings(2));
  ASSERT_EQ(put(early, {{kKeys[0], "a"}, {kKeys[1], "b"}}), PutOutcome::done);
  ASSERT_EQ(put(late, {{kKeys[0], "x"}, {kKeys[1], "y"}}), PutOutcome::done);
  EXPECT_EQ(get(late, kKeys), (std::vector<std::string>{"x", "y", "(absent)"}));
}

TEST_P(Sessions, RefuseWhatCannotBePut) {
  LocalSession session(servers_, settings(1));
  EXPECT_THROW((void)put(session, {{"", "a"}}), UsageError);
  EXPECT_THROW((void)put(session, {{std::string(kMaxKeyBytes + 1, 'k'), "a"}}), UsageError);
  EXPECT_THROW((void)put(session, {{kKeys[0], std::string(kMaxValueBytes + 1, 'v')}}), UsageError);
  EXPECT_THROW((void)put(session, {{kKeys[0], "a"}, {kKeys[0], "b"}}), UsageError);
  EXPECT_THROW((void)put(session, {{.key = kKeys[0], .value = "a", .erase = true}}), UsageError);
  const std::string large(kMaxValueBytes, 'v');
  std::vector<std::string> names;
  std::vector<Write> at_one_server;
  for (int i = 0; names.size() < 5; ++i) {
    std::string name = "large " + std::to_string(i);
    if (server_of(key_id(name), kServers) == 1) names.push_back(std::move(name));
  }
  for (const std::string& name : names) at_one_server.push_back({name, large});
  at_one_server.push_back({kKeys[0], "beside"});
  EXPECT_THROW((void)put(session, at_one_server), UsageError);
  EXPECT_EQ(get(session, {kKeys[0]}), std::vector<std::string>{"(absent)"}) << "nothing was sent";
}

TEST_P(Sessions, RefuseToGetWhatIsNoKey) {
  LocalSession session(servers_, settings(1));
  const std::string overlong(kMaxKeyBytes + 1, 'k');
  EXPECT_THROW((void)get(session, {kKeys[0], ""}), UsageError);
  EXPECT_THROW((void)get(session, {overlong}), UsageError);
}

TEST_P(Sessions, FindOneVersionOfAKeyThatIsAskedForTwice) {
  LocalSession session(servers_, settings(1));
  ASSERT_EQ(put(session, {{kKeys[0], "a"}}), PutOutcome::done);
  EXPECT_EQ(get(session, {kKeys[0], kKeys[0]}), (std::vector<std::string>{"a", "a"}));
}

// The version of an erased key is as good as none.
TEST_P(Sessions, SetWhatIsErased) {
  LocalSession session(servers_, settings(1));
  ASSERT_EQ(put(session, {{kKeys[0], "a"}}), PutOutcome::done);
  ASSERT_EQ(put(session, {{.key = kKeys[0], .value = {}, .erase = true}}), PutOutcome::done);
  EXPECT_EQ(put_if(session, kKeys[0], "b", version(session, kKeys[0])), PutOutcome::done);
  ASSERT_EQ(put(session, {{.key = kKeys[0], .value = {}, .erase = true}}), PutOutcome::done);
  EXPECT_EQ(put_if(session, kKeys[0], "c", {}), PutOutcome::done);
  EXPECT_EQ(get(session, {kKeys[0]}), std::vector<std::string>{"c"});
}

// A writer whose clock is an hour late has not seen what it comes after.
bool finds_the_put_of_a_late_clock(const KvRules& rules) {
  LocalServers servers(kServers, {.bytes = 4U << 20U}, rules);
  LocalSession early(servers, {.session = 1, .wall = {.ahead = std::chrono::hours(1)}});
  LocalSession late(servers, {.session = 2});
  EXPECT_EQ(early.session.put_all(std::vector<Write>{{kKeys[0], "a"}}, servers.soon()), PutOutcome::done);
  EXPECT_EQ(late.session.put_all(std::vector<Write>{{kKeys[0], "b"}}, servers.soon()), PutOutcome::done);
  const auto got = late.session.get_all({&kKeys[0], 1}, servers.soon());
  EXPECT_EQ(got.status, Outcome::done);
  return got.done() && got.value.front().value == "b";
}
TEST(APutThatReturned, IsSeenWhicheverClockIsWrong) { EXPECT_TRUE(finds_the_put_of_a_late_clock({})); }
TEST(APutThatReturnedRules, CatchesAServerThatTakesWhatIsBehind) {
  EXPECT_FALSE(finds_the_put_of_a_late_clock({.refuses_what_is_behind = false}));
}

// A transaction erases one key and changes another, and is committed at the first key's server only. However long that
// lasts, who finds the one erased finds the other changed.
bool finds_all_of_a_slow_eraser(const KvRules& rules) {
  constexpr Duration kGrace = std::chrono::milliseconds(1);
  LocalServers servers(kServers, {.bytes = 4U << 20U, .grace = kGrace}, rules);
  LocalSession session(servers, {.session = 1, .grace = std::chrono::seconds(10)});
  EXPECT_EQ(session.session.put_all(std::vector<Write>{{kKeys[0], "a"}, {kKeys[1], "b"}}, servers.soon()),
            PutOutcome::done);
  HybridClock clock(servers.fabric(), 99, {});
  const Timestamp eraser = clock.next();
  const std::vector<KeyId> keys{key_id(kKeys[0]), key_id(kKeys[1])};
  const auto siblings = make_siblings(SiblingsKind::list, keys);
  const std::vector<ServerNumber> both{0, 1};
  const std::vector<Write> writes{{.key = kKeys[0], .value = {}, .erase = true}, {kKeys[1], "c"}};
  for (const Write& write : writes) {
    const auto answered =
        servers.store_of(write.key).prepare({eraser, {SiblingsKind::list, siblings}, both, {&write, 1}});
    EXPECT_EQ(answered.answer, Answer::done);
  }
  EXPECT_EQ(servers.store_of(kKeys[0]).commit(eraser).answer, Answer::done);
  for (int i = 0; i < 4; ++i) {
    servers.fabric().sleep(2 * kGrace);
    (void)servers.store_of(kKeys[0]).reclaim(100);
  }
  const auto got = session.session.get_all(kKeys, servers.soon());
  EXPECT_EQ(got.status, Outcome::done);
  EXPECT_FALSE(got.value[0].present);
  return got.value[1].value == "c";
}
TEST(ErasedKeys, StayUntilTheirEraserIsCommittedEverywhere) { EXPECT_TRUE(finds_all_of_a_slow_eraser({})); }
TEST(ErasedKeysRules, CatchesATombstoneThatGoesEarlier) {
  EXPECT_FALSE(finds_all_of_a_slow_eraser({.keeps_unsettled_tombstones = false}));
}

// As long as a get takes, when it is asked by messages: it ends, though a key is absent.
TEST(AbsentKeys, AreFoundAbsentHoweverSlowly) {
  constexpr Duration kGrace = std::chrono::milliseconds(1);
  LocalServers servers(kServers, {.bytes = 4U << 20U, .grace = kGrace});
  LocalSession session(servers, {.session = 1, .way = ReadWay::ask, .grace = kGrace});
  ASSERT_EQ(session.session.put_all(std::vector<Write>{{kKeys[0], "a"}}, servers.soon()), PutOutcome::done);
  session.requests.take_each(2 * kGrace);
  const auto got = session.session.get_all(kKeys, servers.fabric().in(std::chrono::seconds(5)));
  ASSERT_EQ(got.status, Outcome::done);
  EXPECT_EQ(got.value[0].value, "a");
  EXPECT_FALSE(got.value[1].present || got.value[2].present);
}

// By READs alone: also of keys that this client has never read, of large values, and while a writer is between prepare
// and commit.
TEST(Cells, AreReadWithoutAskingAServer) {
  LocalServers servers(kServers);
  LocalSession writer(servers, {.session = 1});
  LocalSession reader(servers, {.session = 2, .way = ReadWay::cells});
  const std::string large(10'000, 'l');
  const std::vector<Write> writes{{kKeys[0], "a"}, {kKeys[1], large}};
  ASSERT_EQ(writer.session.put_all(writes, servers.soon()), PutOutcome::done);
  for (int i = 0; i < 2; ++i) {
    const auto got = reader.session.get_all(kKeys, servers.soon());
    ASSERT_EQ(got.status, Outcome::done);
    EXPECT_EQ(got.value[0].value, "a");
    EXPECT_EQ(got.value[1].value, large);
    EXPECT_FALSE(got.value[2].present);
  }
  EXPECT_EQ(reader.requests.sent(), 0);
}

// Memory is short while the second of several servers is asked.
class ShortOfMemory final : public LocalRequests {
 public:
  using LocalRequests::LocalRequests;
  Outcome send(ServerNumber server, std::span<const std::byte> request, Deadline deadline) override {
    if (is_short && server == 1) throw std::bad_alloc();
    return LocalRequests::send(server, request, deadline);
  }
  bool is_short = false;
};

// The answer of the first one is still to come: it must not be taken for that of the next put.
TEST(KvTornSession, TakesNoAnswerOfACallThatAnExceptionCutShort) {
  LocalServers servers(2);
  ShortOfMemory requests(servers);
  AtomicSession session(servers.fabric(), servers.channel(), requests, servers.memories(), {.session = 1});
  const std::string at_first = key_of_server(0, 2);
  const std::string at_second = key_of_server(1, 2);
  const std::array<Write, 2> both{Write{at_first, "a"}, Write{at_second, "b"}};
  const std::string long_key(70'000, 'k');
  const Write too_long{long_key, {}};
  EXPECT_THROW((void)session.put_all({&too_long, 1}, servers.soon()), UsageError);
  EXPECT_FALSE(session.is_torn());
  requests.is_short = true;
  EXPECT_THROW((void)session.put_all(both, servers.soon()), std::bad_alloc);
  requests.is_short = false;
  EXPECT_TRUE(session.is_torn());
  EXPECT_THROW((void)session.put_all({&both[0], 1}, servers.soon()), Error);
  const std::array<std::string_view, 1> keys{at_first};
  EXPECT_THROW((void)session.get_all(keys, servers.soon()), Error);
  EXPECT_FALSE(servers.store_of(at_first).newest(at_first));
}

}  // namespace
}  // namespace farside::kv
