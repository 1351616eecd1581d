// The deadlines of a session's calls.
#include "kv/timed_session.h"

#include <chrono>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/kv/service/local_servers.h"

namespace farside::kv {
namespace {

using namespace std::chrono_literals;

/// Notes until when the last request may be sent.
class NotingRequests final : public LocalRequests {
 public:
  using LocalRequests::LocalRequests;

  Outcome send(ServerNumber server, std::span<const std::byte> request, Deadline deadline) override {
    deadline_ = deadline;
    return LocalRequests::send(server, request, deadline);
  }
  [[nodiscard]] Deadline deadline() const { return deadline_; }

 private:
  Deadline deadline_{};
};

TEST(TimedSession, GivesEachCallTheTimeOutThatItHasThen) {
  LocalServers servers(1);
  NotingRequests requests(servers);
  AtomicSession session(servers.fabric(), servers.channel(), requests, servers.memories(), {.session = 1});
  TimedSession timed(servers.fabric(), session, 10s);
  for (const std::chrono::milliseconds time_out : {10s, 3s, 20s}) {
    timed.set_time_out(time_out);
    const Deadline earliest = servers.fabric().in(time_out);
    ASSERT_EQ(timed.put("key", "value"), PutOutcome::done);
    const Deadline latest = servers.fabric().in(time_out);
    EXPECT_GE(requests.deadline().at, earliest.at);
    EXPECT_LE(requests.deadline().at, latest.at);
  }
}

}  // namespace
}  // namespace farside::kv
