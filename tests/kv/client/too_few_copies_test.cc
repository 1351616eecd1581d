// What a server answers, and what clients make of it, while it has fewer copies than it must have: nothing counts as
// done that began in that time, and what began before comes to an end.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/kv/service/local_servers.h"

namespace farside::kv {
namespace {

constexpr ServerNumber kHowMany = 2;
constexpr ServerNumber kCopied = 1;

/// A standby, or none.
class Copies final : public Journal {
 public:
  bool enough = true;
  bool syncs = true;

  void append(std::span<const std::byte> /*request*/, std::span<const TakenPlace> /*places*/) override {}
  bool sync() override { return syncs; }
  [[nodiscard]] bool takes() const override { return true; }
  [[nodiscard]] bool has_enough_copies() const override { return enough; }
  bool step() override { return false; }
};

/// One request, and its reply when that goes out.
class OneReply final : public Inbox {
 public:
  explicit OneReply(Said said) : said_(std::move(said)) {}

  bool serve(const Answer& /*answer*/, Duration /*pause*/) override { return false; }
  void release(const Revision& revision) override { said_ = revision(std::move(said_.reply)); }
  [[nodiscard]] Reply reply() const {
    EXPECT_FALSE(said_.is_held);
    return Reply::decode(said_.reply).value();
  }

 private:
  Said said_;
};

class KvTooFewCopies : public testing::Test {
 protected:
  [[nodiscard]] static std::string key(ServerNumber server, std::size_t number) {
    return key_of_server(server, kHowMany, number);
  }
  Reply ask(RequestKind kind, std::uint64_t time, const std::string& key = {}) {
    Request request{.kind = kind, .session = 9, .timestamp = {time, 9}};
    if (kind == RequestKind::prepare) request.servers = {0, 1};
    if (!key.empty()) request.writes = {{.key = key, .value = "value"}};
    const Message message = request.encode();
    OneReply inbox(servers_.handler(kCopied).answer_or_hold(message));
    servers_.handler(kCopied).keep(inbox);
    return inbox.reply();
  }

  Copies copies_;
  LocalServers servers_{kHowMany, {.bytes = 4U << 20U}, {}, &copies_};
};

// The first reply may have been lost with the server that gave it, and this one is its standby, promoted and alone.
TEST_F(KvTooFewCopies, ARepeatedPutThatWasMadeBeforeIsNotAcknowledged) {
  EXPECT_EQ(ask(RequestKind::put, 1, key(kCopied, 0)).answer, Answer::done);
  EXPECT_EQ(ask(RequestKind::put, 1, key(kCopied, 0)).answer, Answer::done);
  copies_.enough = false;
  EXPECT_EQ(ask(RequestKind::put, 1, key(kCopied, 0)).answer, Answer::unknown);
  EXPECT_EQ(ask(RequestKind::put, 2, key(kCopied, 0)).answer, Answer::too_few_copies);
  EXPECT_EQ(servers_.handler(kCopied).answer({}), Message{});
  copies_.enough = true;
  EXPECT_EQ(ask(RequestKind::put, 2, key(kCopied, 0)).answer, Answer::done) << "the refusal has changed nothing";
}

TEST_F(KvTooFewCopies, WhatWasPreparedBeforeIsCommittedAndNotAcknowledged) {
  EXPECT_EQ(ask(RequestKind::prepare, 1, key(kCopied, 0)).answer, Answer::done);
  copies_.enough = false;
  EXPECT_EQ(ask(RequestKind::prepare, 1, key(kCopied, 0)).answer, Answer::unknown);
  EXPECT_EQ(ask(RequestKind::commit, 1).answer, Answer::too_few_copies);
  EXPECT_EQ(ask(RequestKind::fate, 1).fate, Fate::committed);
}

// The standby may have the end of its copy, and not the commit.
TEST_F(KvTooFewCopies, ACommitThatCouldNotBeShippedIsNoEnd) {
  EXPECT_EQ(ask(RequestKind::prepare, 1, key(kCopied, 0)).answer, Answer::done);
  copies_.enough = copies_.syncs = false;
  EXPECT_EQ(ask(RequestKind::commit, 1).answer, Answer::unwritable);
}

// Other servers that have prepared wait for it.
TEST_F(KvTooFewCopies, ATransactionThatIsNotHereIsGivenUpWhenOthersAsk) {
  copies_.enough = false;
  EXPECT_EQ(ask(RequestKind::prepare, 1, key(kCopied, 0)).answer, Answer::too_few_copies);
  const Reply fate = ask(RequestKind::fate, 1);
  EXPECT_EQ(fate.answer, Answer::done);
  EXPECT_EQ(fate.fate, Fate::aborted);
  EXPECT_EQ(ask(RequestKind::abort, 1).answer, Answer::done);
}

TEST_F(KvTooFewCopies, ClientsAreToldAndReadOn) {
  LocalSession a(servers_, {.session = 1});
  const std::string here = key(kCopied, 0);
  const std::string elsewhere = key(0, 0);
  const auto put = [&](const std::vector<Write>& writes) { return a.session.put_all(writes, servers_.soon()); };
  const auto value = [&](std::string_view wanted) {
    const auto got = a.session.get_all({&wanted, 1}, servers_.soon());
    return got.done() ? std::string(got.value.front().value) : "failed";
  };
  ASSERT_EQ(put({{here, "1"}, {elsewhere, "1"}}), PutOutcome::done);
  copies_.enough = false;
  EXPECT_EQ(put({{here, "2"}}), PutOutcome::too_few_copies);
  EXPECT_EQ(put({{here, "3"}, {elsewhere, "3"}}), PutOutcome::too_few_copies);
  EXPECT_EQ(put({{elsewhere, "4"}}), PutOutcome::done);
  EXPECT_EQ(value(here), "1");
  EXPECT_EQ(value(elsewhere), "4");
  copies_.enough = true;
  EXPECT_EQ(put({{here, "5"}, {elsewhere, "5"}}), PutOutcome::done);
  EXPECT_EQ(value(here), "5");
}

}  // namespace
}  // namespace farside::kv
