// A pool whose nodes were started by two farside up, as on two machines: they meet over TCP.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "farside/base/error.h"
#include "farside/base/fd.h"

#include "net/event_loop.h"
#include "net/secret.h"
#include "net/socket.h"
#include "team/coordinator_client.h"
#include "team/member_card.h"
#include "tests/support/pool.h"
#include "tests/support/shared.h"

namespace farside::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A TCP port of the loopback, taken as long as it lives.
class TakenPort {
 public:
  TakenPort() : socket_(net::listen_on("127.0.0.1:0")) {}

  [[nodiscard]] std::string address() const { return net::bound_address(socket_, "127.0.0.1:0"); }

 private:
  Fd socket_;
};

bool has_listener(const std::string& address) {
  try {
    return static_cast<bool>(net::connect_to(address, net::SetupClock::now() + std::chrono::seconds(1)));
  } catch (const Error&) {
    return false;
  }
}

/// Takes the seat of a rank with the right secret.
class Newcomer {
 public:
  Newcomer(const std::string& address, const std::filesystem::path& secret, team::Rank rank)
      : client_(loop_, address, net::Secret::load(secret), rank,
                {.lost = [](team::Rank, team::Loss) {},
                 .returned = [](team::Rank, const std::vector<std::string>&) {},
                 .coordinator_gone = [this](const std::string&) { abandoned_ = true; }},
                deadline()) {}
  ~Newcomer() { loop_.stop(); }
  Newcomer(const Newcomer&) = delete;
  Newcomer& operator=(const Newcomer&) = delete;

  void show(const team::MemberCard& card) { (void)client_.exchange("join", card.encode(), deadline()); }
  [[nodiscard]] bool is_abandoned() const { return abandoned_; }

 private:
  static net::SetupClock::time_point deadline() { return net::SetupClock::now() + std::chrono::seconds(20); }

  std::atomic<bool> abandoned_ = false;
  net::EventLoop loop_;
  team::CoordinatorClient client_;
};

class JoinedPool : public PoolTest {
 protected:
  JoinedPool() : address_(TakenPort().address()) {
    make_secret("secret", 's');
    make_secret("other-secret", 'o');
  }

  [[nodiscard]] std::filesystem::path secret(const std::string& name) const { return files_dir() / name; }

  // `farside ARGUMENTS...` on the first or the second of our machines; ends with the owner.
  [[nodiscard]] std::unique_ptr<Command> on(const std::string& machine, std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(),
                     {"env", "FARSIDE_RUNTIME_DIR=" + (files_dir() / machine).string(), FARSIDE_COMMAND});
    return std::make_unique<Command>(arguments);
  }
  [[nodiscard]] std::vector<std::string> first(const std::string& address) const {
    return {"up",       "-n",    "2",         "--nodes", "3", "--cache", "16M", "--secret", secret("secret"),
            "--listen", address, "--silence", "2s"};
  }
  [[nodiscard]] std::vector<std::string> second(const std::string& secret_name) const {
    return {"up",     "-n",           "1", "--nodes", "3", "--cache", "16M", "--secret", secret(secret_name), "--join",
            address_, "--first-rank", "2"};
  }
  // Waits until others may join.
  [[nodiscard]] std::unique_ptr<Command> start_first() const {
    auto started = on("first", first(address_));
    EXPECT_TRUE(eventually([this] { return has_listener(address_); }));
    return started;
  }
  [[nodiscard]] nlohmann::json nodes_of(const std::string& machine) const {
    return nlohmann::json::parse(on(machine, {"status", "--json"})->wait().out).at("nodes");
  }
  // A second machine with another size of the cache.
  void expect_refusal_of_other_options() const {
    std::vector<std::string> other = second("secret");
    *std::ranges::find(other, "16M") = "32M";
    const CommandEnd refused = on("second", other)->wait();
    EXPECT_NE(refused.code(), 0);
    EXPECT_THAT(refused.err, HasSubstr("and the others with"));
  }
  // A second machine with another version of farside.
  void expect_refusal_of_another_version() const {
    team::MemberCard card = team::MemberCard::of_this_process(0);
    card.version += " and later";
    std::unique_ptr<Newcomer> newcomer;
    ASSERT_TRUE(eventually([&] {  // the one before may have the seat for a moment yet
      try {
        newcomer = std::make_unique<Newcomer>(address_, secret("secret"), 2);
      } catch (const Error&) {
      }
      return newcomer != nullptr;
    }));
    EXPECT_THROW(newcomer->show(card), UsageError);
    EXPECT_TRUE(eventually([&] { return newcomer->is_abandoned(); }));
  }
  std::string address_;

 private:
  void make_secret(const std::string& name, char letter) const {
    std::ofstream(secret(name)) << std::string(32, letter);
    ::chmod(secret(name).c_str(), 0600);
  }
};

TEST_F(JoinedPool, IsUpWhenAllMachinesAreAndShowsEachItsOwn) {
  const auto started = start_first();
  const auto joined = on("second", second("secret"));
  const CommandEnd started_end = started->wait();
  const CommandEnd joined_end = joined->wait();
  ASSERT_EQ(started_end.code(), 0) << started_end.err;
  ASSERT_EQ(joined_end.code(), 0) << joined_end.err;

  const auto here = nodes_of("first");
  const auto there = nodes_of("second");
  ASSERT_EQ(here.size(), 2U);
  ASSERT_EQ(there.size(), 1U);
  EXPECT_EQ(there[0].at("node"), 2);
  EXPECT_EQ(there[0].at("state"), "up");
  EXPECT_EQ(on("second", {"exec", "--", "true"})->wait().err, "");  // through its own node

  EXPECT_EQ(on("second", {"down"})->wait().code(), 0);
  EXPECT_EQ(nodes_of("first")[0].at("state"), "up");
  EXPECT_EQ(on("first", {"down"})->wait().code(), 0);
  EXPECT_THAT(started->processes(), IsEmpty());
  EXPECT_THAT(joined->processes(), IsEmpty());
}

// Each machine sees whether the nodes of the others are there, so a monitor of one machine watches the whole pool.
TEST_F(JoinedPool, IsDegradedToEachMachineWhenANodeOfAnotherIsLost) {
  const auto started = start_first();
  const auto joined = on("second", second("secret"));
  ASSERT_EQ(started->wait().code(), 0);
  ASSERT_EQ(joined->wait().code(), 0);
  EXPECT_EQ(on("first", {"status"})->wait().code(), 0);
  EXPECT_EQ(on("second", {"status", "--wait", "60s"})->wait().code(), 0);

  EXPECT_EQ(on("second", {"down"})->wait().code(), 0);
  EXPECT_TRUE(eventually([this] { return on("first", {"status"})->wait().code() == 1; }));
  const auto seen = nlohmann::json::parse(on("first", {"status", "--json"})->wait().out);
  EXPECT_EQ(seen.at("lost_elsewhere"), nlohmann::json({2}));
  ASSERT_EQ(seen.at("problems").size(), 1U);
  EXPECT_THAT(seen.at("problems")[0].get<std::string>(), HasSubstr("node 2, of another machine, is lost"));

  const auto joined_again = on("second", second("secret"));
  EXPECT_EQ(joined_again->wait().code(), 0);
  EXPECT_EQ(on("first", {"status", "--wait", "60s"})->wait().code(), 0);
  EXPECT_EQ(on("second", {"down"})->wait().code(), 0);
  EXPECT_EQ(on("first", {"down"})->wait().code(), 0);
}

// The user need not know which machine is faster.
TEST_F(JoinedPool, MayBeStartedBeforeTheMachineThatItJoins) {
  const auto joined = on("second", second("secret"));
  EXPECT_TRUE(eventually([&] { return joined->processes().size() >= 3; }));  // the node is among them
  const auto started = on("first", first(address_));
  EXPECT_EQ(joined->wait().code(), 0);
  EXPECT_EQ(started->wait().code(), 0);
}

// A machine that does not know the secret neither gets in nor disturbs the machines that know it.
TEST_F(JoinedPool, TurnsAWrongSecretAwayAndGoesOn) {
  const auto started = start_first();
  const CommandEnd refused = on("second", second("other-secret"))->wait();
  EXPECT_EQ(refused.code(), 1);
  EXPECT_THAT(refused.err, HasSubstr("secret"));

  const auto joined = on("second", second("secret"));
  EXPECT_EQ(joined->wait().code(), 0);
  EXPECT_EQ(started->wait().code(), 0);
}

// What started it, such as systemd, learns that trying again is of no use.
TEST_F(JoinedPool, InTheForegroundEndsWithTwoWhenItIsRefused) {
  const auto started = start_first();
  std::vector<std::string> other = second("secret");
  *std::ranges::find(other, "16M") = "32M";
  other.emplace_back("--foreground");
  const CommandEnd refused = on("second", other)->wait();
  EXPECT_EQ(refused.code(), 2) << refused.err;
}

// As often as it tries, while the pool forms and when it is up. It disturbs no node that fits.
TEST_F(JoinedPool, GoesOnWhileAMachineThatDoesNotFitTriesAgainAndAgain) {
  const auto refuse = [this] {
    for (int attempt = 0; attempt < 3; ++attempt) {
      expect_refusal_of_other_options();
      expect_refusal_of_another_version();
    }
  };
  const auto started = start_first();
  refuse();
  const auto joined = on("second", second("secret"));
  ASSERT_EQ(joined->wait().code(), 0);
  ASSERT_EQ(started->wait().code(), 0);
  const nlohmann::json before = nodes_of("first");
  ASSERT_EQ(on("second", {"down"})->wait().code(), 0);
  refuse();
  std::ofstream(files_dir() / "file") << "content";
  EXPECT_EQ(on("first", {"exec", "--under", files_dir(), "--", "cat", files_dir() / "file"})->wait().out, "content");

  const auto joined_again = on("second", second("secret"));
  EXPECT_EQ(joined_again->wait().code(), 0);
  EXPECT_EQ(on("first", {"status", "--wait", "60s"})->wait().code(), 0);
  const nlohmann::json after = nodes_of("first");
  ASSERT_EQ(after.size(), 2U);
  for (std::size_t node = 0; node < after.size(); ++node) {
    EXPECT_EQ(after[node].at("restarts"), 0);
    EXPECT_EQ(after[node].at("process"), before.at(node).at("process"));
  }
}

// While up waits for the other machines, say.
TEST_F(JoinedPool, IsGivenUpByCtrlC) {
  const auto started = start_first();
  ::kill(started->pid(), SIGINT);
  const CommandEnd end = started->wait();
  EXPECT_TRUE(WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGINT);  // as a shell expects
  EXPECT_TRUE(eventually([&] { return started->processes().empty(); }));
  EXPECT_TRUE(std::filesystem::is_empty(files_dir() / "first"));
  EXPECT_FALSE(has_listener(address_));
}

TEST_F(JoinedPool, SaysThatThePortIsInUse) {
  const TakenPort taken;
  const auto started = on("first", first(taken.address()));
  const CommandEnd end = started->wait();
  EXPECT_EQ(end.code(), 1);
  EXPECT_THAT(end.err, HasSubstr(taken.address()));
  EXPECT_THAT(end.err, HasSubstr("Address already in use"));
  EXPECT_THAT(started->processes(), IsEmpty());
}

TEST_F(JoinedPool, NamesTheMissingNumberOfItsFirstNode) {
  std::vector<std::string> incomplete = second("secret");
  incomplete.resize(incomplete.size() - 2);
  const CommandEnd end = on("second", incomplete)->wait();
  EXPECT_EQ(end.code(), 2);
  EXPECT_THAT(end.err, HasSubstr("--first-rank is missing"));
}

TEST_F(JoinedPool, RefusesASilenceTimeThatIsOutOfRange) {
  for (const auto& [silence, said] :
       {std::pair{"1s", "give a time from 2s to 20s"}, std::pair{"20001ms", "give a time from 2s to 20s"},
        std::pair{"soon", "'soon' is not a time"}}) {
    std::vector<std::string> arguments = first(address_);
    arguments.back() = silence;
    const CommandEnd end = on("first", arguments)->wait();
    EXPECT_EQ(end.code(), 2) << silence;
    EXPECT_THAT(end.err, HasSubstr(said));
  }
  std::vector<std::string> joining = second("secret");  // it has the first machine's
  joining.insert(joining.end(), {"--silence", "3s"});
  EXPECT_THAT(on("second", joining)->wait().err, HasSubstr("--silence requires --listen"));
}

TEST_F(JoinedPool, NeedsToKnowTheRest) {
  for (const std::vector<std::string>& incomplete : std::vector<std::vector<std::string>>{
           {"up", "--listen", address_},
           {"up", "--listen", address_, "--nodes", "2", "--secret", secret("secret")},
           {"up", "--join", address_, "--nodes", "2"},
           {"up", "--first-rank", "1"},
           {"up", "-n", "4", "--nodes", "3", "--secret", secret("secret"), "--listen", address_},
       }) {
    const CommandEnd end = on("first", incomplete)->wait();
    EXPECT_EQ(end.code(), 2) << end.err;
  }
}

}  // namespace
}  // namespace farside::test
