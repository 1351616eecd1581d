// What a message carries, and what is none.
#include "kv/protocol/messages.h"

#include <cstring>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kv/protocol/layout.h"

namespace farside::kv {
namespace {

using testing::ElementsAre;

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string text_of(MessageView bytes) {
  return {static_cast<const char*>(static_cast<const void*>(bytes.data())), bytes.size()};
}

Request full_request() {
  Request request{.kind = RequestKind::prepare, .session = 7, .settled = 90, .timestamp = {100, 7}};
  request.keys = {"a", "another key"};
  request.candidates = {{1, 2}, {3, 4}};
  request.siblings = {SiblingsKind::list, bytes_of("0123456789abcdef")};
  request.servers = {0, 2};
  request.writes = {{.key = "k", .value = "value", .expires_ns = 5, .expected = Timestamp{80, 3}},
                    {.key = "gone", .value = {}, .erase = true},
                    {.key = "new", .value = "1", .expected = Timestamp{}}};
  request.prefix = "users/";
  request.cursor = 12;
  request.about = 34;
  request.parts = {bytes_of("one"), bytes_of("another")};
  return request;
}

Reply full_reply() {
  Reply reply{.kind = RequestKind::get, .answer = Answer::behind, .newest = {5, 6}, .forgotten = {1, 1}};
  reply.versions = {{.generation = 3, .place = 77, .record = bytes_of("a record")}, {}};
  reply.fate = Fate::committed;
  reply.keys = {"one", "two"};
  reply.next = 9;
  reply.use = {.keys = 1, .versions = 2, .bytes_used = 3, .bytes_total = 4, .bytes_outside = 5};
  reply.parts = {bytes_of("first"), bytes_of("")};
  return reply;
}

// Every field gets there, whatever the kind says of them.
TEST(KvMessages, CarryAllFieldsOfARequest) {
  const Message bytes = full_request().encode();
  const auto request = Request::decode(bytes);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->kind, RequestKind::prepare);
  EXPECT_EQ(request->session, 7u);
  EXPECT_EQ(request->settled, 90u);
  EXPECT_EQ(request->timestamp, (Timestamp{100, 7}));
  EXPECT_THAT(request->keys, ElementsAre("a", "another key"));
  EXPECT_THAT(request->candidates, ElementsAre(Timestamp{1, 2}, Timestamp{3, 4}));
  EXPECT_EQ(request->siblings.kind, SiblingsKind::list);
  EXPECT_EQ(request->siblings.bytes.size(), 16u);
  EXPECT_THAT(request->servers, ElementsAre(0u, 2u));
  ASSERT_EQ(request->writes.size(), 3u);
  EXPECT_EQ(request->writes[0].key, "k");
  EXPECT_EQ(request->writes[0].value, "value");
  EXPECT_EQ(request->writes[0].expires_ns, 5u);
  EXPECT_FALSE(request->writes[0].erase);
  EXPECT_EQ(request->writes[1].key, "gone");
  EXPECT_TRUE(request->writes[1].erase);
  EXPECT_EQ(request->writes[0].expected, (Timestamp{80, 3}));
  EXPECT_EQ(request->writes[1].expected, std::nullopt);
  EXPECT_EQ(request->writes[2].expected, Timestamp{});
  EXPECT_EQ(request->prefix, "users/");
  EXPECT_EQ(request->cursor, 12u);
  EXPECT_EQ(request->about, 34u);
  ASSERT_EQ(request->parts.size(), 2u);
  EXPECT_EQ(text_of(request->parts[1]), "another");
}

TEST(KvMessages, CarryAllFieldsOfAReply) {
  const Message bytes = full_reply().encode();
  const auto reply = Reply::decode(bytes);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->kind, RequestKind::get);
  EXPECT_EQ(reply->answer, Answer::behind);
  EXPECT_EQ(reply->newest, (Timestamp{5, 6}));
  EXPECT_EQ(reply->forgotten, (Timestamp{1, 1}));
  ASSERT_EQ(reply->versions.size(), 2u);
  EXPECT_EQ(reply->versions[0].generation, 3u);
  EXPECT_EQ(reply->versions[0].place, 77u);
  EXPECT_EQ(std::memcmp(reply->versions[0].record.data(), "a record", 8), 0);
  EXPECT_EQ(reply->versions[1].generation, 0u);
  EXPECT_EQ(reply->fate, Fate::committed);
  EXPECT_THAT(reply->keys, ElementsAre("one", "two"));
  EXPECT_EQ(reply->next, 9u);
  EXPECT_EQ(reply->use.bytes_total, 4u);
  EXPECT_EQ(reply->use.bytes_outside, 5u);
  ASSERT_EQ(reply->parts.size(), 2u);
  EXPECT_EQ(text_of(reply->parts[0]), "first");
  EXPECT_EQ(text_of(reply->parts[1]), "");
}

TEST(KvMessages, CarryTheLargestKeyAndValue) {
  const std::string key(kMaxKeyBytes, 'k');
  const std::string value(kMaxValueBytes, 'v');
  Request request;
  request.writes = {{.key = key, .value = value}};
  const Message bytes = request.encode();
  const auto decoded = Request::decode(bytes);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->writes[0].key, key);
  EXPECT_EQ(decoded->writes[0].value, value);
}

// A peer decides how long what it sends is.
TEST(KvMessages, RefuseWhatIsCutShortOrTooLong) {
  for (Message bytes : {full_request().encode(), full_reply().encode()}) {
    const auto is_understood = [](std::span<const std::byte> some) {
      return Request::decode(some).has_value() || Reply::decode(some).has_value();
    };
    for (std::size_t some = 0; some < bytes.size(); ++some) {
      EXPECT_FALSE(is_understood(std::span(bytes).first(some))) << some;
    }
    bytes.push_back(std::byte{0});
    EXPECT_FALSE(is_understood(bytes));
  }
}

bool is_refused(const Request& request) { return !Request::decode(request.encode()).has_value(); }

TEST(KvMessages, RefuseWhatNoClientWouldSend) {
  const std::string long_key(kMaxKeyBytes + 1, 'k');
  const std::string long_value(kMaxValueBytes + 1, 'v');
  const auto with_key = [](std::string_view key) {
    Request request;
    request.keys = {key};
    return request;
  };
  const auto with_write = [](const Write& write) {
    Request request;
    request.writes = {write};
    return request;
  };
  const auto with_siblings = [](SiblingsKind kind, std::string_view bytes) {
    Request request;
    request.siblings = {kind, bytes_of(bytes)};
    return request;
  };
  EXPECT_FALSE(is_refused(with_key("k")));
  EXPECT_TRUE(is_refused(with_key("")));
  EXPECT_TRUE(is_refused(with_key(long_key)));
  EXPECT_FALSE(is_refused(with_write({.key = "k", .value = ""})));
  EXPECT_TRUE(is_refused(with_write({.key = "", .value = "v"})));
  EXPECT_TRUE(is_refused(with_write({.key = "k", .value = long_value})));
  EXPECT_TRUE(is_refused(with_write({.key = "k", .value = "v", .erase = true})));
  EXPECT_FALSE(is_refused(with_siblings(SiblingsKind::filter, "abc")));
  EXPECT_TRUE(is_refused(with_siblings(SiblingsKind::list, "abc")));
  EXPECT_TRUE(is_refused(with_siblings(SiblingsKind::none, "abc")));
  EXPECT_TRUE(is_refused(with_siblings(static_cast<SiblingsKind>(3), "")));
  EXPECT_TRUE(is_refused({.kind = static_cast<RequestKind>(9)}));
}

// A clock that observed the last of all times could give no other any more; and 0 is before everything.
TEST(KvMessages, RefuseTimesThatNoClockGives) {
  const std::uint64_t last = ~std::uint64_t{0} >> 1U;
  const auto of_time = [](std::uint64_t time) { return Request{.kind = RequestKind::put, .timestamp = {time, 7}}; };
  EXPECT_FALSE(is_refused(of_time(1)));
  EXPECT_FALSE(is_refused(of_time(last)));
  EXPECT_TRUE(is_refused(of_time(last + 1)));
  EXPECT_TRUE(is_refused(of_time(0)));
  EXPECT_TRUE(is_refused({.settled = last + 1}));
  Request conditional = of_time(1);
  conditional.writes = {{.key = "k", .value = "v", .expected = Timestamp{last + 1, 7}}};
  EXPECT_TRUE(is_refused(conditional));
  EXPECT_FALSE(Reply::decode(Reply{.newest = {last + 1, 7}}.encode()));
}

// Counts for which no bytes follow must not make the receiver reserve memory for them.
TEST(KvMessages, RefuseCountsBeyondWhatIsThere) {
  const Message sound = Request{}.encode();
  for (std::size_t count = 48; count < sound.size(); count += sizeof(std::uint32_t)) {
    Message bytes = sound;
    std::memset(bytes.data() + count, 0xff, sizeof(std::uint32_t));
    EXPECT_FALSE(Request::decode(bytes)) << "the count at " << count;
  }
}

}  // namespace
}  // namespace farside::kv
