// A session that is opened anew: when, by which thread, and what its calls do meanwhile.
#include "kv/resp/reconnecting_session.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "farside/base/error.h"

#include "tests/kv/resp/memory_session.h"
#include "tests/support/shared.h"

namespace farside::kv {
namespace {

using test::eventually;

/// Of which a server may be lost.
class SessionOfSome final : public test::MemorySession {
 public:
  SessionOfSome(test::MemoryKeys& keys, bool has_lost_server)
      : test::MemorySession(keys), has_lost_server_(has_lost_server) {}
  [[nodiscard]] bool has_lost_server() const override { return has_lost_server_; }

 private:
  const bool has_lost_server_;
};

class KvReconnecting : public testing::Test {
 protected:
  /// The first session has lost a server. The next is opened once `opens`, and is then of pool `store`.
  ReconnectingSession::Opened open() {
    const bool is_first = opened_++ == 0;
    EXPECT_TRUE(is_first || eventually([this] { return opens_.load(); }));
    if (fails_) throw Error({"open", "a session", "no server answers", ""});
    return {.owner = nullptr,
            .session = std::make_unique<SessionOfSome>(keys_, is_first),
            .store = is_first ? 0 : store_.load()};
  }
  static bool gets(ReconnectingSession& session) {
    const std::string_view key = "key";
    return session.get_all({&key, 1}).done();
  }

  test::MemoryKeys keys_;
  std::atomic<int> opened_ = 0;
  std::atomic<bool> opens_ = false;
  std::atomic<bool> fails_ = false;
  std::atomic<std::uint64_t> store_ = 0;
};

// What is there is served while the rest is looked for.
TEST_F(KvReconnecting, KeepsNoCallWaitingWhileItIsOpenedAnew) {
  ReconnectingSession session([this] { return open(); });
  EXPECT_TRUE(eventually([&] { return gets(session) && opened_ == 2; }));
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(gets(session));
  EXPECT_FALSE(opens_) << "these calls did not wait for it";
  opens_ = true;
  EXPECT_TRUE(eventually([&] { return gets(session) && !session.has_lost_server(); }));
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(gets(session));
  EXPECT_EQ(opened_, 2) << "it has lost nothing any more";
}

TEST_F(KvReconnecting, SaysOnceThatAnotherPoolIsThere) {
  store_ = 1;
  opens_ = true;
  ReconnectingSession session([this] { return open(); });
  int said = 0;
  const auto is_told = [&] {
    try {
      (void)gets(session);
    } catch (const StoreReplaced&) {
      ++said;
    }
    return said != 0;
  };
  EXPECT_TRUE(eventually(is_told));
  for (int i = 0; i < 100; ++i) (void)is_told();
  EXPECT_EQ(said, 1);
}

TEST_F(KvReconnecting, TriesAgainWhatFailed) {
  ReconnectingSession session([this] { return open(); });
  opens_ = fails_ = true;
  EXPECT_TRUE(eventually([&] { return gets(session) && opened_ == 3; }));
  fails_ = false;
  EXPECT_TRUE(eventually([&] { return gets(session) && !session.has_lost_server(); }));
}

}  // namespace
}  // namespace farside::kv
