// Servers and clients that find each other by sockets, in real processes: what one can do through them, and what is
// left of those that go, or are killed.
#include "kv/service/service.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "farside/base/error.h"

#include "kv/protocol/messages.h"
#include "kv/protocol/siblings.h"
#include "kv/service/service_client.h"
#include "tests/support/descriptors.h"
#include "tests/support/fleet.h"
#include "tests/support/hosts.h"
#include "tests/support/mesh.h"
#include "tests/support/pool.h"
#include "tests/support/shared.h"

namespace farside::test {
namespace {

using namespace kv;
using namespace std::chrono_literals;

constexpr ServerNumber kServers = 2;
constexpr std::chrono::milliseconds kSetUp = 60s;

const std::vector<Write> kBoth{{"key 1", "a"}, {"key 2", "b"}};
const std::vector<std::string_view> kKeys{"key 1", "key 2"};

class AKvService : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(server_of(key_id(kKeys[0]), kServers), server_of(key_id(kKeys[1]), kServers)); }

  [[nodiscard]] std::vector<std::string> addresses() const {
    std::vector<std::string> all;
    for (ServerNumber server = 0; server < kServers; ++server) {
      all.push_back(directory_.path() / ("kv-" + std::to_string(server) + ".sock"));
    }
    return all;
  }

  [[nodiscard]] std::unique_ptr<Service> start(const Member& me) const {
    Hosts::enter(me.index() % 2);
    ServiceOptions options;
    options.self = me.index();
    options.servers = [this] { return addresses(); };
    options.listen = {addresses()[me.index()]};
    options.remote_peers = Hosts::wanted();
    options.store.bytes = 4U << 20U;
    options.termination_timeout = 200ms;
    return std::make_unique<Service>(options, secret_);
  }

  /// The part of a member: of a server until no client is `busy` any more, of another one `work`.
  template <class Work>
  void take_part(Member& me, Work work) const {
    if (me.index() < kServers) {
      pids_->at(me.index()) = ::getpid();
      const auto service = start(me);
      me.barrier();
      service->serve_until([this] { return busy_->load() == 0; });
    } else {
      Hosts::enter(me.index() % 2);
      me.barrier();
      work();
      busy_->fetch_sub(1);
    }
  }

  [[nodiscard]] ServiceClient connect() const { return {addresses(), secret_, kSetUp}; }

  static std::unique_ptr<kv::Session> open(ServiceClient& client, SessionOptions options = {}) {
    options.time_out = std::chrono::duration_cast<std::chrono::milliseconds>(kTimeout);
    return client.open_session(options, kSetUp);
  }

  static void expect_both(kv::Session& session) {
    const auto got = session.get_all(kKeys);
    ASSERT_EQ(got.status, Outcome::done);
    EXPECT_EQ(got.value[0].value, "a");
    EXPECT_EQ(got.value[1].value, "b");
  }

  /// The first half of a put of both keys.
  void prepare_both() const {
    const auto deadline = net::SetupClock::now() + kSetUp;
    const auto fabric = make_host_fabric({.mode = fabric_mode_from_environment(),
                                          .remote_peers = Hosts::wanted(),
                                          .secret = kv_secret(secret_).for_fabric()});
    const auto channel = fabric->open_channel();
    std::vector<std::unique_ptr<ServerLink>> links;
    std::vector<ServerLink::Mailbox> mailboxes;
    std::vector<MailboxEnd> ends;
    const MailboxShape shape;
    const auto rings = fabric->create_region("kv replies", kServers * shape.ring_bytes());
    for (const std::string& address : addresses()) {
      links.push_back(std::make_unique<ServerLink>(address, kv_secret(secret_), deadline));
      links.back()->join(*fabric, *fabric->open_channel(), false, deadline);
      mailboxes.push_back(links.back()->open(*rings, ends.size() * shape.ring_bytes(), Waking::doorbell, deadline));
      ends.push_back(mailboxes.back().end);
    }
    MailboxRequests requests(*fabric, *channel, ends, shape, Waking::doorbell);
    std::vector<KeyId> ids;
    for (const std::string_view key : kKeys) ids.push_back(key_id(key));
    const auto siblings = make_siblings(SiblingsKind::list, ids);
    for (const Write& write : kBoth) {
      const Request request{.kind = RequestKind::prepare,
                            .session = 7,
                            .timestamp = {7, 7},
                            .siblings = {SiblingsKind::list, siblings},
                            .servers = {0, 1},
                            .writes = {write}};
      const ServerNumber server = server_of(key_id(write.key), kServers);
      ASSERT_EQ(requests.send(server, request.encode(), fabric->in(kTimeout)), Outcome::done);
      const auto reply = requests.receive(server, fabric->in(kTimeout));
      ASSERT_EQ(reply.status, Outcome::done);
      ASSERT_EQ(Reply::decode(reply.value)->answer, Answer::done);
    }
  }

  TemporaryDirectory directory_;
  net::Secret secret_ = net::Secret::create(directory_.path() / "secret");
  const Shared<std::atomic<int>> busy_;                          // clients
  const Shared<std::atomic<int>> stage_;                         // of a test
  const Shared<std::array<std::atomic<pid_t>, kServers>> pids_;  // of the servers
};

// Every way to read and to wait finds what another session wrote.
TEST_F(AKvService, IsReadInEveryWay) {
  *busy_ = 1;
  Fleet fleet(kServers + 1, [&](Member& me) {
    take_part(me, [&] {
      ServiceClient client = connect();
      const auto writer = open(client);
      ASSERT_EQ(writer->put_all(kBoth), PutOutcome::done);
      for (const ReadWay way : {ReadWay::ask, ReadWay::addresses, ReadWay::cells}) {
        for (const Waking waking : {Waking::polled, Waking::doorbell}) {
          const auto reader = open(client, {.way = way, .waking = waking});
          for (int twice = 0; twice < 2; ++twice) expect_both(*reader);
        }
      }
    });
  });
  fleet.expect_success();
}

// The number of a client that went is another one's next, and replies to the former may be lost with it.
TEST_F(AKvService, AnswersTheClientThatHasTheNumberOfOneThatWent) {
  *busy_ = 1;
  Fleet fleet(kServers + 1, [&](Member& me) {
    take_part(me, [&] {
      for (int clients = 0; clients < 3; ++clients) {
        ServiceClient client = connect();
        const auto session = open(client, {.waking = Waking::polled});
        for (std::uint32_t puts = 0; puts < 2 * MailboxShape{}.slots; ++puts) {
          ASSERT_EQ(session->put_all(kBoth), PutOutcome::done);
        }
      }
    });
  });
  fleet.expect_success();
}

// What a process has of kv's memory, its own and others'.
std::size_t mapped_regions(const std::string& process) {
  std::ifstream maps("/proc/" + process + "/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("farside:kv") != std::string::npos) ++count;
  }
  return count;
}

struct Kept {
  std::size_t descriptors;
  std::size_t regions;
  friend bool operator==(const Kept&, const Kept&) = default;
};

// Neither sessions nor clients that ended leave anything in a server.
TEST_F(AKvService, KeepsNothingOfThoseThatWent) {
  if (fabric_mode_from_environment() == FabricMode::ucx || Hosts::wanted())
    GTEST_SKIP() << "UCX keeps addresses for ever, and opens and closes descriptors of its own";
  *busy_ = 1;
  Fleet fleet(kServers + 1, [&](Member& me) {
    take_part(me, [&] {
      const std::string server = std::to_string(pids_->at(0).load());
      const auto kept = [&server] { return Kept{open_descriptors(server), mapped_regions(server)}; };
      const Kept before = kept();
      for (int clients = 0; clients < 5; ++clients) {
        ServiceClient client = connect();
        for (int sessions = 0; sessions < 3; ++sessions) {
          const auto first = open(client);
          const auto second = open(client, {.waking = Waking::polled});
          EXPECT_NE(kept(), before);
        }
      }
      EXPECT_TRUE(eventually([&] { return kept() == before; }))
          << kept().descriptors << " instead of " << before.descriptors << " descriptors";
    });
  });
  fleet.expect_success();
}

// What a session takes of a server besides the keys' memory is to be seen, as long as there is the session.
TEST_F(AKvService, CountsTheRingsOfSessions) {
  *busy_ = 1;
  Fleet fleet(kServers + 1, [&](Member& me) {
    take_part(me, [&] {
      ServiceClient client = connect();
      const auto session = open(client);
      const auto outside = [&session] {
        const auto servers = session->use();
        EXPECT_EQ(servers.status, Outcome::done);
        std::vector<std::uint64_t> bytes;
        for (const MemoryUse& use : servers.value) bytes.push_back(use.bytes_outside);
        return bytes;
      };
      const std::uint64_t ring = MailboxShape{}.ring_bytes();
      const auto is_of = [&](std::uint64_t sessions) {
        return eventually([&] {
          const std::vector<std::uint64_t> bytes = outside();
          return std::ranges::all_of(bytes, [&](std::uint64_t each) { return each / ring == sessions; });
        });
      };
      EXPECT_TRUE(is_of(1));
      auto others = std::array{open(client), open(client)};
      EXPECT_TRUE(is_of(3));
      others = {};
      EXPECT_TRUE(is_of(1));
      EXPECT_NE(outside().at(0) % ring, 0U) << "the table of when keys expire";
    });
  });
  fleet.expect_success();
}

// The pool's secret is what lets a client in, and what tells it that the server is not an impostor.
TEST_F(AKvService, IsOfNoUseWithoutTheSecret) {
  *busy_ = 1;
  Fleet fleet(kServers + 1, [&](Member& me) {
    take_part(me, [&] {
      const net::Secret another = net::Secret::create(directory_.path() / "another");
      EXPECT_THROW(ServiceClient(addresses(), another, kSetUp), Error);
      // Nor does it help to know the secret of the pool's coordinator in another's place.
      EXPECT_THROW(ServerLink(addresses().front(), secret_, net::SetupClock::now() + kSetUp), Error);
    });
  });
  fleet.expect_success();
}

// Its requests end soon, and say what is known; what is at other servers is read and written as before.
TEST_F(AKvService, TellsWhenAServerIsKilled) {
  *busy_ = 1;
  Fleet fleet(kServers + 1, [&](Member& me) {
    take_part(me, [&] {
      ServiceClient client = connect();
      const auto opened = open(client);
      kv::Session& session = *opened;
      ASSERT_EQ(session.put_all(kBoth), PutOutcome::done);
      const ServerNumber lost = server_of(key_id(kKeys[0]), kServers);
      ::kill(pids_->at(lost).load(), SIGKILL);
      EXPECT_TRUE(eventually([&] { return session.get_all(kKeys).status == Outcome::peer_lost; }));
      EXPECT_EQ(session.put_all(kBoth), PutOutcome::unknown);
      const auto got = session.get(kKeys[1]);
      ASSERT_EQ(got.status, Outcome::done);
      EXPECT_EQ(got.value.value, "b");
      const auto without = open(client);  // a new one has what there is
      EXPECT_EQ(without->get(kKeys[1]).status, Outcome::done);
      EXPECT_EQ(without->get_all(kKeys).status, Outcome::peer_lost);
      EXPECT_EQ(without->put_all(kBoth), PutOutcome::unknown);
      EXPECT_THROW((void)open(client, {.keys = {std::string(kKeys[0])}}), Error);
    });
  });
  unsigned killed = 0;
  for (unsigned member = 0; member < kServers + 1; ++member) {
    const int status = fleet.wait(member);
    if (status == SIGKILL) {
      ++killed;
    } else {
      EXPECT_EQ(status, 0);
    }
  }
  EXPECT_EQ(killed, 1U);
}

// Prepared everywhere, its client dead: the servers find each other, and finish it.
TEST_F(AKvService, FinishesWhatItsClientCouldNot) {
  *busy_ = 1;
  Fleet fleet(kServers + 2, [&](Member& me) {
    take_part(me, [&] {
      if (me.index() == kServers) {
        prepare_both();
        *stage_ = 1;
        ::raise(SIGKILL);
      }
      ASSERT_TRUE(eventually([this] { return *stage_ == 1; }));
      ServiceClient client = connect();
      const auto opened = open(client);
      EXPECT_TRUE(eventually([&] {
        const auto got = opened->get_all(kKeys);
        EXPECT_EQ(got.status, Outcome::done);
        EXPECT_EQ(got.value[0].present, got.value[1].present);
        return got.value[0].present;
      }));
      expect_both(*opened);
    });
  });
  EXPECT_EQ(fleet.wait(kServers), SIGKILL);
  for (const unsigned other : {0U, 1U, kServers + 1}) EXPECT_EQ(fleet.wait(other), 0);
}

// Reads need no server, not even the first ones of a session.
TEST_F(AKvService, IsReadWhileItsServersAreStopped) {
  if (fabric_mode_from_environment() == FabricMode::ucx || Hosts::wanted())
    GTEST_SKIP() << "over emulated transports the target's service thread takes part";
  *busy_ = 1;
  Fleet fleet(kServers + 1, [&](Member& me) {
    take_part(me, [&] {
      ServiceClient client = connect();
      const auto cells = open(client, {.way = ReadWay::cells});
      const auto addresses = open(client, {.way = ReadWay::addresses});
      ASSERT_EQ(cells->put_all(kBoth), PutOutcome::done);
      expect_both(*addresses);
      const auto cold = open(client, {.way = ReadWay::cells});
      *stage_ = 1;
      EXPECT_TRUE(eventually([this] { return *stage_ == 2; }));
      for (kv::Session* each : {cells.get(), addresses.get(), cold.get()}) {
        each->set_time_out(std::chrono::milliseconds(100));
        EXPECT_TRUE(eventually([each] { return each->get_all(kKeys).status == Outcome::done; }));
        each->set_time_out(kDefaultTimeout);
        expect_both(*each);
      }
      *stage_ = 3;
    });
  });
  EXPECT_TRUE(eventually([this] { return *stage_ == 1; }));
  for (unsigned server = 0; server < kServers; ++server) fleet.stop(server);
  *stage_ = 2;
  EXPECT_TRUE(eventually([this] { return *stage_ == 3; }));
  for (unsigned server = 0; server < kServers; ++server) fleet.signal(server, SIGCONT);
  fleet.expect_success();
}

}  // namespace
}  // namespace farside::test
