// farside's store and two-phase locking, on the fabric that FARSIDE_FABRIC names: a job of `farside run` whose last
// rank is the client and whose others serve. Arguments: how requests go ("mailbox", "polled", "send_receive" or
// "socket"), how transactions are isolated ("ramp" or "locking"), and for how many milliseconds superseded versions are
// kept.
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <unistd.h>

#include "bench/harness/contend.h"
#include "bench/harness/seat.h"
#include "bench/kv/clients.h"
#include "kv/contention.h"
#include "kv_baselines/locking/locking_handler.h"
#include "kv_baselines/locking/locking_session.h"
#include "kv_baselines/team_store.h"

namespace farside::bench {
namespace {

constexpr team::Rank kFirstServer = 1;
constexpr std::uint32_t kMaxThreads = 16;
const std::map<std::string, kv::ReadWay> kWays{
    {"ask", kv::ReadWay::ask}, {"addresses", kv::ReadWay::addresses}, {"cells", kv::ReadWay::cells}};

struct Arguments {
  std::string transport;
  std::string isolation;
  std::int64_t grace_ms;
};

kv_baselines::TransportOptions transport_of(const std::string& name, team::Rank servers) {
  kv_baselines::TransportOptions options;
  options.servers = servers;
  options.first_server = kFirstServer;
  options.sessions = kMaxThreads * static_cast<std::uint32_t>(kWays.size());
  if (name == "socket") options.transport = kv_baselines::Transport::socket;
  if (name == "send_receive") options.transport = kv_baselines::Transport::send_receive;
  if (name == "polled") options.waking = kv::Waking::polled;
  return options;
}

void check_values(std::span<const kv::Got> values, std::size_t value_bytes) {
  for (const kv::Got& each : values) check(each.present && each.value.size() == value_bytes, "finding a value");
}

class RampClient final : public KvClient {
 public:
  RampClient(const Fabric& fabric, std::unique_ptr<kv::SessionStack> session)
      : fabric_(fabric), session_(std::move(session)) {}

  void read(std::span<const std::string_view> keys, std::size_t value_bytes) override { (void)get(keys, value_bytes); }
  void write(std::span<const std::string_view> keys, std::string_view value) override {
    writes_.clear();
    for (const std::string_view key : keys) writes_.push_back({key, value});
    check(session_->session().put_all(writes_, deadline()) == kv::PutOutcome::done, "a put");
  }
  void modify(std::span<const std::string_view> keys, std::string_view value) override {
    kv::Contention contention(std::chrono::seconds(30));
    kv::PutOutcome outcome{};
    do {
      const std::span<const kv::Got> got = get(keys, value.size());
      writes_.clear();
      for (std::size_t i = 0; i < keys.size(); ++i) {
        writes_.push_back({.key = keys[i], .value = value, .expected = got[i].version});
      }
      outcome = session_->session().put_all(writes_, deadline());
    } while (outcome == kv::PutOutcome::differs && contention.try_again());
    check(outcome == kv::PutOutcome::done, "a change");
  }

 private:
  /// Valid until the next get.
  std::span<const kv::Got> get(std::span<const std::string_view> keys, std::size_t value_bytes) {
    const auto got = session_->session().get_all(keys, deadline());
    check(got.status, "a get");
    check_values(got.value, value_bytes);
    return got.value;
  }
  [[nodiscard]] Deadline deadline() const { return fabric_.in(std::chrono::seconds(30)); }

  const Fabric& fabric_;
  std::unique_ptr<kv::SessionStack> session_;
  std::vector<kv::Write> writes_;
};

class LockingClient final : public KvClient {
 public:
  LockingClient(Fabric& fabric, kv_baselines::TeamTransport& transport, std::uint32_t number)
      : fabric_(fabric),
        channel_(fabric.open_channel()),
        requests_(transport.open_requests(*channel_, number)),
        session_(fabric, *requests_, number) {}

  void read(std::span<const std::string_view> keys, std::size_t value_bytes) override {
    const auto got = session_.get_all(keys, deadline());
    check(got.status, "a get");
    check_values(got.value, value_bytes);
  }
  void write(std::span<const std::string_view> keys, std::string_view value) override {
    check(session_.put_all(writes(keys, value), deadline()), "a put");
  }
  void modify(std::span<const std::string_view> keys, std::string_view value) override {
    check(session_.modify_all(
              keys, [&](auto) { return writes(keys, value); }, deadline()),
          "a change");
  }

 private:
  [[nodiscard]] static std::vector<kv::Write> writes(std::span<const std::string_view> keys, std::string_view value) {
    std::vector<kv::Write> made;
    for (const std::string_view key : keys) made.push_back({key, value});
    return made;
  }
  [[nodiscard]] Deadline deadline() const { return fabric_.in(std::chrono::seconds(30)); }

  Fabric& fabric_;
  std::unique_ptr<Channel> channel_;
  std::unique_ptr<kv::Requests> requests_;
  kv_baselines::LockingSession session_;
};

/// What the ranks of a job tell each other.
class Job {
 public:
  Job() : words_(team_->allocate("bench", 2 * sizeof(ControlWord))) {
    words_->local().word<ControlWord>(kPid).store(static_cast<std::uint64_t>(::getpid()));
    meet();
  }

  void meet() { check(team_->barrier(deadline()), "meeting"); }
  [[nodiscard]] team::Team& team() { return *team_; }
  [[nodiscard]] team::Rank servers() const { return team_->size() - kFirstServer; }
  [[nodiscard]] bool serves() const { return team_->rank() >= kFirstServer; }
  [[nodiscard]] std::function<bool()> is_over() {
    return [over = words_->local().word<ControlWord>(kOver)] { return over.load() != 0; };
  }
  /// By the client. A server that was told may be gone before this process knows that it was.
  void end() {
    for (team::Rank server = kFirstServer; server < team_->size(); ++server) {
      const auto over = words_->of(server).word<ControlWord>(kOver);
      const Outcome told = channel_->write_signal(over, 1, deadline());
      check(told == Outcome::done || told == Outcome::peer_lost, "telling the servers that it is over");
    }
  }
  [[nodiscard]] std::vector<int> server_processes() {
    std::vector<int> processes;
    for (team::Rank server = kFirstServer; server < team_->size(); ++server) {
      const auto pid = channel_->load(words_->of(server).word<ControlWord>(kPid), deadline());
      check(pid.status, "asking for a process's number");
      processes.push_back(static_cast<int>(pid.value));
    }
    return processes;
  }

 private:
  static constexpr std::uint64_t kOver = 0;
  static constexpr std::uint64_t kPid = 8;

  [[nodiscard]] Deadline deadline() const { return team_->fabric().in(std::chrono::seconds(30)); }

  std::unique_ptr<team::Team> team_ = team::join_team();
  std::unique_ptr<team::SymmetricRegion> words_;
  std::unique_ptr<Channel> channel_ = team_->fabric().open_channel();
};

/// The clients by number, made when they are first asked for.
template <class Client>
class Crowd {
 public:
  using Make = std::function<std::unique_ptr<Client>(std::uint32_t number, kv::ReadWay way)>;

  explicit Crowd(Make make) : make_(std::move(make)) {}

  KvClient& of(unsigned thread, const std::string& way) {
    const kv::ReadWay read_way = kWays.at(way);
    const std::uint32_t number =
        thread * static_cast<std::uint32_t>(kWays.size()) + static_cast<std::uint32_t>(read_way);
    auto& client = clients_[number];
    if (client == nullptr) client = make_(number, read_way);
    return *client;
  }

 private:
  Make make_;
  std::map<std::uint32_t, std::unique_ptr<Client>> clients_;
};

void run_ramp(Job& job, const Arguments& arguments) {
  const kv_baselines::TransportOptions transport = transport_of(arguments.transport, job.servers());
  kv_baselines::TeamStoreOptions options;
  options.servers = transport.servers;
  options.first_server = transport.first_server;
  options.sessions = transport.sessions;
  options.transport = transport.transport;
  options.waking = transport.waking;
  options.store.bytes = std::uint64_t{3} << 30U;
  options.store.grace = std::chrono::milliseconds(arguments.grace_ms);
  kv_baselines::TeamStore store(job.team(), options);
  if (store.serves()) return store.serve_until(job.is_over());
  Crowd<RampClient> crowd([&](std::uint32_t number, kv::ReadWay way) {
    kv::SessionSettings settings;
    settings.way = way;
    return std::make_unique<RampClient>(job.team().fabric(), store.open_session(number, settings));
  });
  KvClients([&](unsigned thread, const std::string& way) -> KvClient& { return crowd.of(thread, way); },
            job.server_processes())
      .answer_questions();
  job.end();
}

void run_locking(Job& job, const Arguments& arguments) {
  kv_baselines::TeamTransport transport(job.team(), transport_of(arguments.transport, job.servers()));
  if (job.serves()) {
    const auto channel = job.team().fabric().open_channel();
    const auto inbox = transport.open_inbox(*channel);
    job.meet();
    kv_baselines::LockingHandler handler;
    kv::Server server(*inbox, [&handler](std::span<const std::byte> request) { return handler.answer(request); });
    return server.serve_until(job.is_over());
  }
  job.meet();
  Crowd<LockingClient> crowd([&](std::uint32_t number, kv::ReadWay) {
    return std::make_unique<LockingClient>(job.team().fabric(), transport, number);
  });
  KvClients([&](unsigned thread, const std::string& way) -> KvClient& { return crowd.of(thread, way); },
            job.server_processes())
      .answer_questions();
  job.end();
}

void run(int argc, char** argv) {
  if (argc != 4) throw std::invalid_argument("usage: kv-contender-farside TRANSPORT ISOLATION GRACE_MS");
  const Arguments arguments{argv[1], argv[2], std::stoll(argv[3])};
  Job job;
  if (arguments.isolation == "locking") return run_locking(job, arguments);
  run_ramp(job, arguments);
}

}  // namespace
}  // namespace farside::bench

int main(int argc, char** argv) {
  return farside::bench::contend([&] { farside::bench::run(argc, argv); });
}
