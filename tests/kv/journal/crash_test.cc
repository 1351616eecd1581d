// Three servers with journals, clients that write sets of keys on them step by step, and servers that die between any
// two steps and come back with what their journals had kept. Whatever was answered is found again, and every
// transaction is whole.
//
// A dying server loses what it had not synced. Of a journal that says it has kept what it has not, this must notice.
#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "kv/server/replay.h"
#include "kv/server/request_handler.h"
#include "kv/server/terminator.h"
#include "tests/kv/server/store_fixture.h"

namespace farside::kv::test {
namespace {

constexpr ServerNumber kServers = 3;

/// What is kept of changes, and what is not yet.
class MemoryJournal final : public Journal {
 public:
  using Lies = std::function<bool(const Request&)>;

  explicit MemoryJournal(Lies lies) : lies_(std::move(lies)) {}

  void append(std::span<const std::byte> request, std::span<const TakenPlace> /*places*/) override {
    appended_.emplace_back(request.begin(), request.end());
  }
  bool sync() override {
    for (Message& each : appended_) {
      if (!lies_ || !lies_(*Request::decode(each))) kept_.push_back(std::move(each));
    }
    appended_.clear();
    return true;
  }
  [[nodiscard]] bool takes() const override { return true; }
  bool step() override { return false; }

  void crash() { appended_.clear(); }
  [[nodiscard]] const std::vector<Message>& kept() const { return kept_; }

 private:
  Lies lies_;
  std::vector<Message> appended_;
  std::vector<Message> kept_;
};

/// Servers, what is on its way to them, and clients.
class CrashRun {
 public:
  CrashRun(std::uint64_t seed, const MemoryJournal::Lies& lies) : dice_(seed) {
    for (ServerNumber number = 0; number < kServers; ++number) {
      servers_.push_back(std::make_unique<Side>(lies));
      start(number);
    }
    for (std::uint64_t session = 1; session <= kClients; ++session) clients_.push_back({.session = session});
  }

  /// What went wrong.
  std::optional<std::string> run() {
    for (; step_ < kSteps; ++step_) {
      switch (dice_() % 8) {
        case 0:
        case 1: act(clients_.at(dice_() % kClients)); break;
        case 2:
        case 3: deliver_any(); break;
        case 4:
        case 5: keep(any_server()); break;
        case 6: life(any_server()).terminator->step(); break;
        default:
          if (dice_() % 10 == 0) crash(any_server());
      }
      pass(std::chrono::microseconds(100));
      if (step_ % 16 == 0) look();
    }
    finish();
    look();
    judge();
    return violation_;
  }

 private:
  static constexpr std::uint64_t kClients = 4;
  static constexpr int kSteps = 3000;
  static constexpr Duration kTimeout = std::chrono::milliseconds(2);

  struct Asked {
    ServerNumber server;
    Message request;
    std::shared_ptr<std::optional<Message>> reply;
    int comes;  ///< at this step, or later
  };
  using ReplySlot = std::shared_ptr<std::optional<Message>>;

  /// How a server asks the others.
  class Asking final : public Requests {
   public:
    explicit Asking(CrashRun& run) : run_(run), slots_(kServers) {}

    [[nodiscard]] ServerNumber servers() const override { return kServers; }
    Outcome send(ServerNumber server, std::span<const std::byte> request, Deadline /*deadline*/) override {
      slots_.at(server) = run_.send(server, {request.begin(), request.end()});
      return Outcome::done;
    }
    Result<Message> receive(ServerNumber server, Deadline /*deadline*/) override {
      if (!has_reply(server)) return {Outcome::timed_out, {}};
      return {Outcome::done, **slots_.at(server)};
    }
    [[nodiscard]] bool has_reply(ServerNumber server) override { return slots_.at(server)->has_value(); }

   private:
    CrashRun& run_;
    std::vector<ReplySlot> slots_;
  };

  struct Life : Inbox {
    Life(CrashRun& run, ServerNumber number, Journal& journal)
        : logged(memory.store(), &journal),
          asking(run),
          terminator(std::make_unique<Terminator>(memory.fabric(), logged, asking, number, kTimeout)) {}

    bool serve(const Answer& /*answer*/, Duration /*pause*/) override { return false; }
    void release(const Revision& revision) override {
      for (auto& [slot, reply] : held) *slot = revision(std::move(reply));
      held.clear();
    }

    StoreUnderTest memory{{.bytes = 2U << 20U}};
    LoggedStore logged;
    RequestHandler handler{logged};
    Asking asking;
    std::unique_ptr<Terminator> terminator;
    std::vector<std::pair<ReplySlot, Message>> held;
  };
  struct Side {
    explicit Side(const MemoryJournal::Lies& lies) : journal(lies) {}

    MemoryJournal journal;
    std::unique_ptr<Life> life;
  };

  struct Transaction {
    Timestamp timestamp;
    std::vector<ServerNumber> servers;
    bool acknowledged = false;
    bool seen = false;
  };
  struct Client {
    std::uint64_t session;
    std::uint64_t settled = 0;
    std::optional<std::size_t> under_way{};  ///< its transaction
    RequestKind told = RequestKind::prepare;
    std::vector<ReplySlot> replies{};
    int waited = 0;
  };

  // ---- Servers

  ServerNumber any_server() { return static_cast<ServerNumber>(dice_() % kServers); }
  Life& life(ServerNumber server) { return *servers_.at(server)->life; }
  void start(ServerNumber server) {
    Side& side = *servers_.at(server);
    side.life = std::make_unique<Life>(*this, server, side.journal);
    for (const Message& each : side.journal.kept()) {
      if (replay(side.life->memory.store(), *Request::decode(each)) != Answer::done)
        fail("what was kept cannot be replayed");
    }
  }
  void crash(ServerNumber server) {
    servers_.at(server)->journal.crash();
    start(server);
  }
  void keep(ServerNumber server) { life(server).handler.keep(life(server)); }

  ReplySlot send(ServerNumber server, Message request) {
    const int delay = dice_() % 8 == 0 ? static_cast<int>(dice_() % 400) : 0;  // some are slow
    auto reply = std::make_shared<std::optional<Message>>();
    return under_way_.emplace_back(Asked{server, std::move(request), std::move(reply), step_ + delay}).reply;
  }
  void deliver_any() {
    if (under_way_.empty()) return;
    const auto at = under_way_.begin() + static_cast<std::ptrdiff_t>(dice_() % under_way_.size());
    if (at->comes > step_) return;
    const Asked asked = std::move(*at);
    under_way_.erase(at);
    Life& server = life(asked.server);
    Inbox::Said said = server.handler.answer_or_hold(asked.request);
    if (said.is_held) {
      server.held.emplace_back(asked.reply, std::move(said.reply));
    } else {
      *asked.reply = std::move(said.reply);
    }
  }
  void pass(Duration duration) {
    for (const auto& side : servers_) side->life->memory.clock_pass(duration);
  }

  // ---- Clients

  void act(Client& client) {
    if (!client.under_way) return begin(client);
    const auto has_come = [](const ReplySlot& slot) { return slot->has_value(); };
    if (!std::ranges::all_of(client.replies, has_come)) {
      if (++client.waited > 200) give_up(client);
      return;
    }
    const bool all_done = std::ranges::all_of(
        client.replies, [](const ReplySlot& slot) { return Reply::decode(**slot).value().answer == Answer::done; });
    Transaction& transaction = transactions_.at(*client.under_way);
    if (client.told == RequestKind::prepare && transaction.servers.size() > 1) {
      return tell(client, all_done ? RequestKind::commit : RequestKind::abort);
    }
    if (!all_done) return give_up(client);
    transaction.acknowledged = client.told != RequestKind::abort;
    client.settled = transaction.timestamp.time;
    client.under_way.reset();
  }
  void begin(Client& client) {
    client.under_way = transactions_.size();
    Transaction& transaction = transactions_.emplace_back();
    transaction.timestamp = {++time_, client.session};
    for (ServerNumber server = 0; server < kServers; ++server) {
      if (dice_() % 2 == 0) transaction.servers.push_back(server);
    }
    if (transaction.servers.empty()) transaction.servers.push_back(any_server());
    tell(client, RequestKind::prepare);
  }
  void tell(Client& client, RequestKind kind) {
    const Transaction& transaction = transactions_.at(*client.under_way);
    client.told = kind;
    client.waited = 0;
    client.replies.clear();
    const bool is_put = transaction.servers.size() == 1;
    for (const ServerNumber server : transaction.servers) {
      Request request{.kind = is_put ? RequestKind::put : kind, .session = client.session, .settled = client.settled};
      request.timestamp = transaction.timestamp;
      request.servers = transaction.servers;
      const std::string key = key_of(transaction, server);
      if (kind == RequestKind::prepare) request.writes.push_back({.key = key, .value = "value"});
      client.replies.push_back(send(server, request.encode()));
    }
  }
  /// Another client takes its place: of this one's transaction it is not known what becomes of it.
  void give_up(Client& client) { client = {.session = ++last_session_}; }

  // ---- What must hold

  static std::string key_of(const Transaction& transaction, ServerNumber server) {
    return std::to_string(transaction.timestamp.time) + " at " + std::to_string(server);
  }
  [[nodiscard]] bool is_committed(const Transaction& transaction, ServerNumber server) {
    return life(server).memory.store().newest(key_of(transaction, server)).has_value();
  }
  void look() {
    for (Transaction& each : transactions_) {
      if (is_committed(each, each.servers[dice_() % each.servers.size()])) each.seen = true;
    }
  }
  /// All messages come, and the servers finish what clients left.
  void finish() {
    step_ = std::numeric_limits<int>::max() / 2;
    const auto has_doubts = [this] {
      return std::ranges::any_of(servers_, [](const auto& side) {
        return !side->life->memory.store().undecided({std::numeric_limits<std::int64_t>::max()}).empty();
      });
    };
    for (int round = 0; round < 10'000 && (has_doubts() || !under_way_.empty()); ++round) {
      for (std::size_t left = under_way_.size(); left != 0; --left) deliver_any();
      for (ServerNumber server = 0; server < kServers; ++server) {
        keep(server);
        life(server).terminator->step();
      }
      pass(kTimeout / 4);
    }
    if (has_doubts()) fail("a transaction was never finished");
  }
  void judge() {
    for (const Transaction& each : transactions_) {
      const auto committed = [&](ServerNumber server) { return is_committed(each, server); };
      const bool all = std::ranges::all_of(each.servers, committed);
      if (!all && std::ranges::any_of(each.servers, committed)) fail("a transaction is there in part");
      if (!all && each.acknowledged) fail("what was acknowledged is lost");
      if (!all && each.seen) fail("what was seen is lost");
    }
  }
  void fail(const std::string& what) {
    if (!violation_) violation_ = what;
  }

  std::mt19937_64 dice_;
  int step_ = 0;
  std::vector<std::unique_ptr<Side>> servers_;
  std::vector<Asked> under_way_;
  std::vector<Client> clients_;
  std::vector<Transaction> transactions_;
  std::uint64_t time_ = 0;
  std::uint64_t last_session_ = kClients;
  std::optional<std::string> violation_;
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kSeeds = 5;
#else
constexpr std::uint64_t kSeeds = 20;
#endif

std::optional<std::string> violation(const MemoryJournal::Lies& lies = {}) {
  for (std::uint64_t seed = 1; seed <= farside::test::reduced(kSeeds); ++seed) {
    if (const auto found = CrashRun(seed, lies).run()) return "seed " + std::to_string(seed) + ": " + *found;
  }
  return std::nullopt;
}

TEST(KvCrashes, LoseNothingThatWasAnsweredOrSeen) { EXPECT_EQ(violation(), std::nullopt); }

MemoryJournal::Lies forgets(RequestKind kind) {
  return [kind](const Request& change) { return change.kind == kind; };
}

TEST(KvCrashes, ShowAPutThatIsAnsweredBeforeItIsKept) { EXPECT_NE(violation(forgets(RequestKind::put)), std::nullopt); }
TEST(KvCrashes, ShowAPrepareThatIsAnsweredBeforeItIsKept) {
  EXPECT_NE(violation(forgets(RequestKind::prepare)), std::nullopt);
}
TEST(KvCrashes, ShowACommitThatIsAnsweredBeforeItIsKept) {
  EXPECT_NE(violation(forgets(RequestKind::commit)), std::nullopt);
}
/// What a server says to a prepare of which another server was told that it is not prepared there, if it dies in
/// between.
Answer prepare_after_a_no(const MemoryJournal::Lies& lies) {
  MemoryJournal journal(lies);
  Request request{.kind = RequestKind::fate, .timestamp = {7, 7}};
  {
    StoreUnderTest memory;
    LoggedStore logged(memory.store(), &journal);
    EXPECT_EQ(logged.carry_out(request, request.encode()).fate, Fate::aborted);
    EXPECT_TRUE(logged.sync());
  }
  StoreUnderTest memory;
  for (const Message& each : journal.kept()) EXPECT_EQ(replay(memory.store(), *Request::decode(each)), Answer::done);
  LoggedStore logged(memory.store(), &journal);
  request.kind = RequestKind::prepare;
  request.writes.push_back({.key = "key", .value = "value"});
  return logged.carry_out(request, request.encode()).answer;
}

TEST(KvCrashes, DoNotUndoANo) {
  EXPECT_EQ(prepare_after_a_no({}), Answer::barred);
  EXPECT_EQ(prepare_after_a_no(forgets(RequestKind::abort)), Answer::done);
}

}  // namespace
}  // namespace farside::kv::test
