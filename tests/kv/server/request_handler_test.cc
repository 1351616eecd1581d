// What a server says to requests that no session would send: they fill no process's memory, and nothing ends.
#include <string>

#include <gtest/gtest.h>

#include "tests/kv/service/local_servers.h"

namespace farside::kv {
namespace {

class KvRequestHandler : public testing::Test {
 protected:
  Reply ask(const Request& request) {
    bytes_ = servers_.handler(0).answer(request.encode());
    return Reply::decode(bytes_).value();
  }
  Answer put(std::string_view key, std::string_view value) {
    Request request{.kind = RequestKind::put, .session = 7, .timestamp = {++time_, 7}};
    request.writes = {{.key = key, .value = value}};
    return ask(request).answer;
  }

  LocalServers servers_{1};
  std::uint64_t time_ = 0;
  Message bytes_;
};

// A request of a few hundred bytes could ask for gigabytes.
TEST_F(KvRequestHandler, RefusesAGetWhoseReplyWouldBeTooLong) {
  const std::string value(1U << 20U, 'v');
  ASSERT_EQ(put("large", value), Answer::done);
  Request get;
  get.keys.assign(10, "large");
  EXPECT_EQ(ask(get).versions.size(), 10u);
  get.keys.assign(64, "large");
  EXPECT_EQ(ask(get).answer, Answer::refused);
  get.keys.assign(kMaxMessageBytes / 64, "absent");
  EXPECT_EQ(ask(get).answer, Answer::refused);
}

// Each among each would take minutes: this test's time limit.
TEST_F(KvRequestHandler, LooksForManyKeysAmongManyCandidates) {
  const auto prepared = [](std::uint64_t time) { return Timestamp{1'000'000 + time, 8}; };
  ASSERT_EQ(put("quiet", "newest"), Answer::done);
  ASSERT_EQ(put("busy", "newest"), Answer::done);
  for (std::uint64_t time = 0; time < 2000; ++time) {
    Request request{.kind = RequestKind::prepare, .session = 8, .timestamp = prepared(time), .servers = {0, 1}};
    request.writes = {{.key = "busy", .value = "prepared"}};
    ASSERT_EQ(ask(request).answer, Answer::done);
  }
  Request get;
  for (int i = 0; i < 100'000; ++i) get.keys.insert(get.keys.end(), {"quiet", "busy"});
  for (std::uint64_t time = 200'000; time > 0; --time) get.candidates.push_back({time, 9});
  const auto generation_of_last = [this, &get] {
    const Reply reply = ask(get);
    EXPECT_EQ(reply.versions.size(), get.keys.size());
    return reply.versions.empty() ? 0 : reply.versions.back().generation;
  };
  const auto generation_of = [this](const Timestamp& timestamp) {
    return servers_.store_of("busy").at("busy", timestamp)->generation;
  };
  EXPECT_EQ(generation_of_last(), servers_.store_of("busy").newest("busy")->generation);
  get.candidates.push_back(prepared(20));
  get.candidates.push_back(prepared(10));
  EXPECT_EQ(generation_of_last(), generation_of(prepared(20)));
  get.candidates = {prepared(20), prepared(30), prepared(5000)};
  EXPECT_EQ(generation_of_last(), generation_of(prepared(30)));
}

TEST_F(KvRequestHandler, ScansNoMoreThanAMessageHolds) {
  for (int i = 0; i < 3000; ++i) ASSERT_EQ(put("key " + std::to_string(i), "v"), Answer::done);
  const Request scan{.kind = RequestKind::scan, .about = ~std::uint32_t{0}};
  const Reply reply = ask(scan);
  EXPECT_GE(reply.keys.size(), 500u);
  EXPECT_LE(reply.keys.size(), 1016u);
  EXPECT_NE(reply.next, 0u);
}

// Empty: the connection is closed, and the store is as it was.
TEST_F(KvRequestHandler, HasNoAnswerToWhatIsNoRequest) {
  RequestHandler& handler = servers_.handler(0);
  EXPECT_TRUE(handler.answer({}).empty());
  EXPECT_TRUE(handler.answer(Message(87)).empty());
  Request request{.kind = RequestKind::put, .session = 7, .timestamp = {1, 7}};
  EXPECT_TRUE(handler.answer(request.encode()).empty());
  EXPECT_EQ(ask({.kind = RequestKind::use}).use.keys, 0u);
}

// Each as if it had come by itself, one after the other.
TEST_F(KvRequestHandler, DoesSeveralChangesInTheirOrder) {
  const auto change = [](RequestKind kind, std::uint64_t time) {
    Request request{.kind = kind, .session = 7, .timestamp = {time, 7}};
    if (kind == RequestKind::prepare || kind == RequestKind::put) request.writes = {{.key = "a", .value = "1"}};
    return request.encode();
  };
  const std::vector<Message> requests{change(RequestKind::prepare, 10), change(RequestKind::put, 20),
                                      change(RequestKind::commit, 10), change(RequestKind::put, 15)};
  Request several{.kind = RequestKind::several};
  several.parts.assign(requests.begin(), requests.end());
  std::vector<Answer> answers;
  for (const MessageView part : ask(several).parts) answers.push_back(Reply::decode(part).value().answer);
  EXPECT_EQ(answers, (std::vector{Answer::done, Answer::done, Answer::done, Answer::behind}));
  EXPECT_EQ(servers_.store_of("a").newest("a")->timestamp, (Timestamp{20, 7}));
}

// Their replies may be long, or hold others.
TEST_F(KvRequestHandler, DoesNothingButChangesTogether) {
  const Message get = Request{.keys = {"a"}}.encode();
  Request several{.kind = RequestKind::several};
  several.parts = {get};
  const Message nested = several.encode();
  EXPECT_TRUE(servers_.handler(0).answer(nested).empty());
  several.parts = {nested};
  EXPECT_TRUE(servers_.handler(0).answer(several.encode()).empty());
  several.parts = {MessageView(get).first(20)};
  EXPECT_TRUE(servers_.handler(0).answer(several.encode()).empty());
}

// Kinds of which nothing is known, in any order.
TEST_F(KvRequestHandler, BearsCommitsAndAbortsOfWhatNeverWas) {
  const auto about = [](RequestKind kind) {
    return Request{.kind = kind, .session = ~std::uint64_t{0}, .settled = 3, .timestamp = {5, 9}};
  };
  EXPECT_EQ(ask(about(RequestKind::commit)).answer, Answer::unknown);
  EXPECT_EQ(ask(about(RequestKind::abort)).answer, Answer::done);
  EXPECT_EQ(ask(about(RequestKind::commit)).answer, Answer::barred);
  EXPECT_EQ(ask(about(RequestKind::fate)).fate, Fate::aborted);
}

}  // namespace
}  // namespace farside::kv
