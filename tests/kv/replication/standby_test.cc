// Servers with standbys, in real processes: what exists, and for which clients, when a primary is killed, or only
// stopped and taken for dead.
#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "farside/base/error.h"
#include "farside/base/fd.h"

#include "kv/service/service.h"
#include "kv/service/service_client.h"
#include "tests/support/fleet.h"
#include "tests/support/mesh.h"
#include "tests/support/pool.h"
#include "tests/support/shared.h"

namespace farside::test {
namespace {

using namespace kv;
using namespace std::chrono_literals;

constexpr ServerNumber kServers = 2;
constexpr unsigned kSeats = 2 * kServers;  // primaries, and then the standby of each
constexpr std::chrono::milliseconds kSetUp = 60s;

const std::vector<std::string_view> kKeys{"key 1", "key 2"};

/// Each server in a process of its own.
class AKvStandby : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(lost(), server_of(key_id(kKeys[1]), kServers)); }

  /// The server that goes.
  [[nodiscard]] static ServerNumber lost() { return server_of(key_id(kKeys[0]), kServers); }

  [[nodiscard]] std::vector<std::string> addresses(const std::string& of) const {
    std::vector<std::string> all;
    for (ServerNumber server = 0; server < kServers; ++server) {
      all.push_back(directory_.path() / ("kv-" + std::to_string(server) + of + ".sock"));
    }
    return all;
  }

  void serve(Member& me) const {
    if (keeps_logs_) {
      const Fd log(::open(log_of(me.index()).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
      ASSERT_EQ(::dup2(log.get(), STDERR_FILENO), STDERR_FILENO);
    }
    ServiceOptions options;
    options.self = me.index() % kServers;
    options.servers = [this] { return addresses(""); };
    options.store.bytes = 4U << 20U;
    if (standby_is_small_ && me.index() == kServers + lost()) options.store.bytes = 1U << 20U;
    options.termination_timeout = kSetUp;  // no server gives up a large put that is under way, however slow the machine
    options.replica.standbys = [this] { return addresses("-standby"); };
    options.replica.seat = me.index() / kServers;
    options.replica.is_dead = [this](ServerNumber partition, unsigned seat, std::uint16_t) {
      return (*dead_).at(seat * kServers + partition).load();
    };
    options.replica.ring_bytes = 64U << 10U;
    options.replica.min_copies = min_copies_;
    options.listen = {addresses(options.replica.seat == 1 ? "-standby" : "").at(options.self)};
    Service service(options, secret_);
    up_->fetch_add(1);
    service.serve_until([this] { return busy_->load() == 0; });
  }

  /// As many clients as `clients` has, after all servers; each ends when its work is done.
  template <class Work>
  void run(unsigned clients, Work work) {
    *busy_ = static_cast<int>(clients);
    fleet_ = std::make_unique<Fleet>(kSeats + clients, [this, work](Member& me) {
      if (me.index() < kSeats) return serve(me);
      ASSERT_TRUE(eventually([this] { return up_->load() == kSeats; }));
      work(me.index() - kSeats);
      busy_->fetch_sub(1);
    });
  }
  void expect_that_all_but_one_ended_well() {
    for (unsigned member = 0; member < kSeats + 1; ++member) {
      EXPECT_EQ(fleet_->wait(member), member == lost() ? SIGKILL : 0) << "member " << member;
    }
  }

  [[nodiscard]] ServiceClient connect() const { return {addresses(""), secret_, kSetUp}; }
  static std::unique_ptr<kv::Session> open(ServiceClient& client, ReadWay way) {
    SessionOptions options;
    options.way = way;
    options.time_out = std::chrono::duration_cast<std::chrono::milliseconds>(kTimeout);
    return client.open_session(options, kSetUp);
  }
  static PutOutcome put_both(kv::Session& session, std::string_view value) {
    return session.put_all(std::vector<Write>{{kKeys[0], value}, {kKeys[1], value}});
  }
  static void expect_both(kv::Session& session, std::string_view value) {
    const auto got = session.get_all(kKeys);
    ASSERT_EQ(got.status, Outcome::done);
    EXPECT_EQ(got.value[0].value, value);
    EXPECT_EQ(got.value[1].value, value);
  }
  void await_stage(int stage) const {
    ASSERT_TRUE(eventually([&] { return *stage_ >= stage; }));
  }
  void declare_dead(unsigned seat) { (*dead_).at(seat) = true; }

  [[nodiscard]] std::string log_of(unsigned seat) const { return directory_.path() / std::to_string(seat); }
  /// How many lines with `part` are in the log of a server that keeps one.
  [[nodiscard]] std::ptrdiff_t lines_with(const std::string& part, unsigned seat) const {
    std::ifstream log(log_of(seat));
    std::ptrdiff_t lines = 0;
    for (std::string line; std::getline(log, line);) lines += line.find(part) == std::string::npos ? 0 : 1;
    return lines;
  }

  bool standby_is_small_ = false;  ///< that of `lost`
  bool keeps_logs_ = false;        ///< each server, in a file
  std::uint32_t min_copies_ = 1;
  TemporaryDirectory directory_;
  net::Secret secret_ = net::Secret::create(directory_.path() / "secret");
  const Shared<std::atomic<int>> busy_;                       // clients
  const Shared<std::atomic<unsigned>> up_;                    // servers
  const Shared<std::atomic<int>> stage_;                      // of a test
  const Shared<std::array<std::atomic<bool>, kSeats>> dead_;  // as the test has declared
  std::unique_ptr<Fleet> fleet_;
};

// Sessions that were open go on, whatever way they read, and so do new ones.
TEST_F(AKvStandby, TakesThePlaceOfAPrimaryThatWasKilled) {
  run(1, [this](unsigned) {
    ServiceClient client = connect();
    std::vector<std::unique_ptr<kv::Session>> sessions;
    for (const ReadWay way : {ReadWay::ask, ReadWay::addresses, ReadWay::cells}) sessions.push_back(open(client, way));
    ASSERT_EQ(put_both(*sessions.front(), "before"), PutOutcome::done);
    for (const auto& session : sessions) expect_both(*session, "before");
    *stage_ = 1;
    for (const auto& session : sessions) expect_both(*session, "before");
    await_stage(2);
    for (const auto& session : sessions) {
      expect_both(*session, "before");
      ASSERT_EQ(session->put(kKeys[0], "one"), PutOutcome::done);
      ASSERT_EQ(put_both(*session, "before"), PutOutcome::done);
    }
    ASSERT_EQ(put_both(*sessions.back(), "after"), PutOutcome::done);
    for (const auto& session : sessions) expect_both(*session, "after");
    expect_both(*open(client, ReadWay::cells), "after");
    ServiceClient another = connect();
    expect_both(*open(another, ReadWay::ask), "after");
  });
  await_stage(1);
  fleet_->signal(lost(), SIGKILL);
  declare_dead(lost());
  *stage_ = 2;
  expect_that_all_but_one_ended_well();
}

// The primary is stopped while puts and gets are under way: they wait, and go on at the standby when the test has
// declared the primary dead. Then it is: what was stopped never goes on.
TEST_F(AKvStandby, TakesThePlaceOfAPrimaryThatIsOnlySlow) {
  if (fabric_mode_from_environment() == FabricMode::ucx)
    GTEST_SKIP() << "over emulated transports the target's service thread takes part";
  run(1, [this](unsigned) {
    ServiceClient client = connect();
    const auto session = open(client, ReadWay::cells);
    ASSERT_EQ(put_both(*session, "before"), PutOutcome::done);
    *stage_ = 1;
    await_stage(2);
    expect_both(*session, "before");  // by READs, while it stands still
    *stage_ = 3;
    ASSERT_EQ(put_both(*session, "after"), PutOutcome::done);
    expect_both(*session, "after");
  });
  await_stage(1);
  fleet_->stop(lost());
  *stage_ = 2;
  await_stage(3);
  declare_dead(lost());
  expect_that_all_but_one_ended_well();
}

// Its primary answers no write before it has been told that it is alone, and is read and written then.
TEST_F(AKvStandby, IsNotNeededOnceItIsDead) {
  run(1, [this](unsigned) {
    ServiceClient client = connect();
    const auto session = open(client, ReadWay::cells);
    ASSERT_EQ(put_both(*session, "before"), PutOutcome::done);
    *stage_ = 1;
    await_stage(2);
    expect_both(*session, "before");
    ASSERT_EQ(put_both(*session, "after"), PutOutcome::done);
    expect_both(*session, "after");
    ServiceClient another = connect();
    expect_both(*open(another, ReadWay::cells), "after");
  });
  await_stage(1);
  const unsigned standby = kServers + lost();
  fleet_->signal(standby, SIGKILL);
  declare_dead(standby);
  *stage_ = 2;
  for (unsigned member = 0; member < kSeats + 1; ++member) {
    EXPECT_EQ(fleet_->wait(member), member == standby ? SIGKILL : 0) << "member " << member;
  }
}

// Reads go on, and a put that needs the other server alone.
TEST_F(AKvStandby, IsRequiredForWritesWhereTwoCopiesAre) {
  min_copies_ = 2;
  run(1, [this](unsigned) {
    ServiceClient client = connect();
    const auto session = open(client, ReadWay::cells);
    ASSERT_EQ(put_both(*session, "before"), PutOutcome::done);
    *stage_ = 1;
    await_stage(2);
    const auto put_at_lost = [&] { return session->put(kKeys[0], "after"); };
    // The first ones may find the loss on their way: then they are not acknowledged.
    EXPECT_TRUE(eventually([&] { return put_at_lost() == PutOutcome::too_few_copies; }));
    EXPECT_EQ(put_both(*session, "both"), PutOutcome::too_few_copies);
    EXPECT_EQ(session->erase(kKeys[0]), PutOutcome::too_few_copies);
    EXPECT_EQ(session->put(kKeys[1], "the other"), PutOutcome::done);
    EXPECT_EQ(session->get(kKeys[1]).value.value, "the other");
    const auto use = session->use();
    ASSERT_TRUE(use.done());
    EXPECT_EQ(use.value.at(lost()).copies, Copies::one);
    EXPECT_EQ(use.value.at(1 - lost()).copies, Copies::both);
  });
  await_stage(1);
  const unsigned standby = kServers + lost();
  fleet_->signal(standby, SIGKILL);
  declare_dead(standby);
  *stage_ = 2;
  for (unsigned member = 0; member < kSeats + 1; ++member) {
    EXPECT_EQ(fleet_->wait(member), member == standby ? SIGKILL : 0) << "member " << member;
  }
}

// One that has not the memory which its primary has cannot follow. It is counted no longer, as `farside status` shows,
// and needed for nothing. It logs why, and its primary that there is one copy: each once, before anything else happens.
TEST_F(AKvStandby, IsNotCountedOnceItHasGivenUp) {
  standby_is_small_ = true;
  keeps_logs_ = true;
  run(1, [this](unsigned) {
    ServiceClient client = connect();
    const auto session = open(client, ReadWay::cells);
    EXPECT_EQ(client.copies(kSetUp), (std::vector<std::uint32_t>{2, 2}));
    ASSERT_EQ(put_both(*session, std::string(1'500'000, 'b')), PutOutcome::done);
    std::vector<std::uint32_t> copies{2, 2};
    copies[lost()] = 1;
    EXPECT_TRUE(eventually([&] { return client.copies(kSetUp) == copies; }));
    ASSERT_EQ(put_both(*session, "after"), PutOutcome::done);
    *stage_ = 1;
    await_stage(2);
    expect_both(*session, "after");
    ASSERT_EQ(put_both(*session, "at last"), PutOutcome::done);
    ServiceClient another = connect();
    expect_both(*open(another, ReadWay::cells), "at last");
  });
  await_stage(1);
  const unsigned standby = kServers + lost();
  const std::string whose = "the standby of server " + std::to_string(lost()) + " has given up";
  const std::string why = whose + ": its memory is not laid out as that of its primary";
  const std::string alone = whose + ", as the log of its node says in detail; its keys have one copy now";
  EXPECT_TRUE(eventually([&] { return lines_with(why, standby) == 1; }));
  EXPECT_TRUE(eventually([&] { return lines_with(alone, lost()) == 1; }));
  fleet_->signal(standby, SIGKILL);
  declare_dead(standby);
  *stage_ = 2;
  for (unsigned member = 0; member < kSeats + 1; ++member) {
    EXPECT_EQ(fleet_->wait(member), member == standby ? SIGKILL : 0) << "member " << member;
    const bool is_partner = member == standby || member == lost();
    EXPECT_EQ(member < kSeats ? lines_with("standby", member) : 0, is_partner ? 1 : 0) << "member " << member;
  }
}

// Then nothing is left to wait for: sessions that are open and newcomers are told that it is lost, and why.
TEST_F(AKvStandby, IsLostWithItsPrimaryOnceItHasGivenUp) {
  standby_is_small_ = true;
  run(1, [this](unsigned) {
    ServiceClient client = connect();
    const auto session = open(client, ReadWay::cells);
    ASSERT_EQ(put_both(*session, std::string(1'500'000, 'b')), PutOutcome::done);
    std::vector<std::uint32_t> copies{2, 2};
    copies[lost()] = 1;
    EXPECT_TRUE(eventually([&] { return client.copies(kSetUp) == copies; }));
    *stage_ = 1;
    await_stage(2);
    EXPECT_TRUE(eventually([&] { return session->get(kKeys[0]).status == Outcome::peer_lost; }));
    EXPECT_EQ(session->lost_server_of(kKeys[0]), lost());
    EXPECT_EQ(session->get(kKeys[1]).status, Outcome::done);
    copies[lost()] = 0;
    EXPECT_EQ(client.copies(kSetUp), copies);
    ServiceClient another = connect();
    for (ServiceClient* each : {&client, &another}) {
      SessionOptions options;
      options.keys = {std::string(kKeys[0])};
      try {
        (void)each->open_session(options, kSetUp);
        ADD_FAILURE() << "there is no server of the key";
      } catch (const Error& error) {
        EXPECT_NE(error.failure().why.find("it is lost"), std::string::npos) << error.what();
        EXPECT_NE(error.failure().why.find("no copy of the keys"), std::string::npos) << error.what();
      }
    }
  });
  await_stage(1);
  fleet_->signal(lost(), SIGKILL);
  declare_dead(lost());
  *stage_ = 2;
  expect_that_all_but_one_ended_well();
}

// Values larger than what changes are shipped through, and many more than it holds at once.
TEST_F(AKvStandby, FollowsWhateverIsWritten) {
  run(1, [this](unsigned) {
    ServiceClient client = connect();
    const auto session = open(client, ReadWay::cells);
    const std::string large(200'000, 'l');
    ASSERT_EQ(put_both(*session, large), PutOutcome::done);
    for (int number = 0; number < 2000; ++number) {
      ASSERT_EQ(session->put("many", std::to_string(number)), PutOutcome::done);
    }
    *stage_ = 1;
    await_stage(2);
    expect_both(*session, large);
    const auto got = session->get("many");
    ASSERT_EQ(got.status, Outcome::done);
    EXPECT_EQ(got.value.value, "1999");
  });
  await_stage(1);
  fleet_->signal(lost(), SIGKILL);
  declare_dead(lost());
  *stage_ = 2;
  expect_that_all_but_one_ended_well();
}

}  // namespace
}  // namespace farside::test
