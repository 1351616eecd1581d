// A change that is asked for twice, since the first reply did not come, and whose session the server has forgotten.
#include "kv/client/repeated.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/kv/service/local_servers.h"

namespace farside::kv {
namespace {

constexpr std::uint64_t kForgetting = 1100;  // more sessions than a server remembers without need

Message reply_of(RequestKind kind, Answer answer) { return Reply{.kind = kind, .answer = answer}.encode(); }

TEST(KvRepeated, LeavesOpenWhatMayHaveBeenDoneAndNothingElse) {
  for (const RequestKind kind : {RequestKind::put, RequestKind::prepare}) {
    for (const Answer refused :
         {Answer::barred, Answer::unwritable, Answer::too_few_copies}) {  // only now: it may have been done before
      EXPECT_EQ(reply_to_repeated(reply_of(kind, refused)), reply_of(kind, Answer::unknown));
    }
    for (const Answer other : {Answer::done, Answer::behind, Answer::full, Answer::differs}) {
      EXPECT_EQ(reply_to_repeated(reply_of(kind, other)), reply_of(kind, other));
    }
  }
  EXPECT_EQ(reply_to_repeated(reply_of(RequestKind::commit, Answer::barred)),
            reply_of(RequestKind::commit, Answer::barred));
  EXPECT_EQ(reply_to_repeated({}), Message());

  const std::vector<Message> parts{reply_of(RequestKind::put, Answer::barred),
                                   reply_of(RequestKind::put, Answer::done)};
  Reply several{.kind = RequestKind::several};
  several.parts.assign(parts.begin(), parts.end());
  const Message repeated = reply_to_repeated(several.encode());
  const auto decoded = Reply::decode(repeated);
  ASSERT_TRUE(decoded && decoded->parts.size() == 2);
  EXPECT_EQ(Reply::decode(decoded->parts[0])->answer, Answer::unknown);
  EXPECT_EQ(Reply::decode(decoded->parts[1])->answer, Answer::done);
}

/// The server does the first put, and its reply is lost; others write meanwhile; then it is asked again.
class AskedTwice final : public LocalRequests {
 public:
  AskedTwice(LocalServers& servers, std::string key)
      : LocalRequests(servers), servers_(servers), key_(std::move(key)) {}

  Outcome send(ServerNumber server, std::span<const std::byte> request, Deadline deadline) override {
    is_first_ = puts_++ == 0;
    if (is_first_) {
      EXPECT_EQ(Reply::decode(servers_.handler(server).answer(request))->answer, Answer::done);
      LocalSession other(servers_, {.session = 2});
      const Write write{.key = key_, .value = "other"};
      EXPECT_EQ(other.session.put_all({&write, 1}, deadline), PutOutcome::done);
      const Timestamp last = other.session.last_put();
      for (std::uint64_t i = 0; i < kForgetting; ++i) {
        const Write unrelated{.key = "unrelated"};
        EXPECT_EQ(servers_.store_of(key_).put({last.time + 1 + i, 3 + i}, unrelated).answer, Answer::done);
      }
    }
    return LocalRequests::send(server, request, deadline);
  }
  Result<Message> receive(ServerNumber server, Deadline deadline) override {
    auto reply = LocalRequests::receive(server, deadline);
    if (std::exchange(is_first_, false)) reply.value = reply_to_repeated(std::move(reply.value));
    return reply;
  }

  [[nodiscard]] int puts() const noexcept { return puts_; }

 private:
  LocalServers& servers_;
  const std::string key_;
  bool is_first_ = false;
  int puts_ = 0;
};

TEST(KvRepeated, IsNotWrittenOnceMoreAboveAnothersWrite) {
  LocalServers servers(1);
  AskedTwice requests(servers, "key");
  AtomicSession writer(servers.fabric(), servers.channel(), requests, servers.memories(), {.session = 1});
  const Write write{.key = "key", .value = "first"};
  EXPECT_EQ(writer.put_all({&write, 1}, servers.soon()), PutOutcome::unknown);
  EXPECT_EQ(requests.puts(), 1);
  LocalSession reader(servers, {.session = 9});
  const std::string_view key = "key";
  const auto got = reader.session.get_all({&key, 1}, servers.soon());
  ASSERT_EQ(got.status, Outcome::done);
  EXPECT_EQ(got.value.front().value, "other");
}

}  // namespace
}  // namespace farside::kv
