// kv_run.h — sessions that put, erase and get a few keys at random (src/kv/protocol) on the harshest network there is,
// while servers and clients stop and clients die; and what must hold of it: the history is Read Atomic, session by
// session, every value is the one that was written, and when all faults are over everybody can read everything.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kv/history/read_atomic.h"
#include "kv/protocol/mailbox.h"
#include "kv/protocol/server.h"
#include "kv/protocol/session.h"
#include "sim/world.h"

namespace farside::sim {

/// Everything about a run but its seed.
struct KvScenario {
  kv::ServerNumber servers = 2;
  Rank clients = 2;
  std::size_t keys = 4;
  int rounds = 12;
  std::uint64_t one_in_erases = 0;
  std::uint64_t most_value_bytes = 24;
  Duration most_skew{};  ///< of clients' clocks
  int pauses = 0;
  int stalls = 0;
  Rank deaths = 0;  ///< of the last clients
  std::optional<kv::ReadWay> way;            ///< at random if none
  std::optional<kv::SiblingsKind> siblings;  ///< at random if none
  Network network;
  kv::KvRules rules;
};

class KvRun {
 public:
  static constexpr Duration kGrace = std::chrono::milliseconds(4);

  KvRun(std::uint64_t seed, const KvScenario& scenario)
      : scenario_(scenario),
        world_(seed, scenario.servers + scenario.clients, scenario.network),
        dice_(world_.scheduler()),
        servers_(scenario.servers),
        clients_(scenario.clients),
        erased_(scenario.keys) {
    for (std::size_t key = 0; key < scenario.keys; ++key) keys_.push_back("key " + std::to_string(key));
  }

  /// What went wrong.
  std::optional<std::string> run() {
    for (Rank rank = 0; rank < world_.size(); ++rank) {
      world_.on(rank, [this, rank] { live(rank); });
    }
    if (!world_.run(kLimit)) fail("somebody was still at work when the time was over");
    judge();
    return violation_;
  }

 private:
  using Timestamp = kv::Timestamp;

  static constexpr Duration kPatience = std::chrono::milliseconds(200);
  static constexpr Duration kLife = std::chrono::microseconds(1500);  // in which things befall ranks and links
  static constexpr Duration kLimit = std::chrono::seconds(60);
  static constexpr std::uint64_t kMemoryBytes = 48U << 10U;

  struct ServerSide {
    std::unique_ptr<SymmetricRegion> memory;
    std::unique_ptr<Channel> channel;
    std::unique_ptr<kv::Store> store;
    std::unique_ptr<kv::Server> server;
  };
  /// What a client did, as it will stand in the history.
  struct Did {
    HistoryTransaction::Outcome outcome = HistoryTransaction::Outcome::committed;
    Timestamp version{};                                      // of a put
    std::vector<std::size_t> written{};                       // by a put
    std::vector<std::pair<std::size_t, Timestamp>> reads{};   // key, version found
  };
  struct ClientSide {
    std::unique_ptr<Channel> channel;
    std::vector<kv::ServerMemory> memories;
    std::unique_ptr<kv::MailboxRequests> requests;
    std::unique_ptr<kv::Session> session;
    std::vector<Did> done;
    std::optional<Did> under_way;  // a put of which nothing is known yet
  };

  // ---- Setting up

  void live(Rank rank) {
    // Everything is allocated by all ranks together, though each piece is used at one of them.
    SimTeam& team = world_.team(rank);
    auto memory = team.allocate("memory", kMemoryBytes);
    if (rank < scenario_.servers) return serve(rank, std::move(memory));
    use(rank - scenario_.servers, std::move(memory));
  }

  void serve(Rank rank, std::unique_ptr<SymmetricRegion> memory) {
    ServerSide& side = servers_[rank];
    side.memory = std::move(memory);
  }

  // ---- What a client does

  void act(ClientSide& client) {
    if (dice_.one_in(4)) fabric_of(client).sleep(dice_.up_to(kAwhile));
    if (dice_.one_in(2)) return put(client);
    get(client, kPatience);
  }

  void put(ClientSide& client) {
    std::vector<kv::Write> writes;
    std::vector<std::string> values;
    Did did;
    values.reserve(keys_.size());
    for (const std::size_t key : any_keys()) {
      const bool erases = dice_.one_in(scenario_.one_in_erases);
      if (erases) erased_[key] = true;
      values.push_back(erases ? "" : new_value());
      writes.push_back({.key = keys_[key], .value = values.back(), .erase = erases});
      did.written.push_back(key);
    }
    client.under_way = did;
    const kv::PutOutcome outcome = client.session->put_all(writes, fabric_of(client).in(kPatience));
    client.under_way.reset();
    did.version = client.session->last_put();
    did.outcome = outcome == kv::PutOutcome::done      ? HistoryTransaction::Outcome::committed
                  : outcome == kv::PutOutcome::unknown ? HistoryTransaction::Outcome::unknown
                                                       : HistoryTransaction::Outcome::aborted;
    if (is_calm() && outcome != kv::PutOutcome::done) fail("a put was not done");
    for (std::size_t i = 0; i < writes.size(); ++i) note_value(did.written[i], did.version, values[i]);
    client.done.push_back(std::move(did));
  }

  void get(ClientSide& client, Duration patience) {
    const std::vector<std::size_t> chosen = any_keys();
    std::vector<std::string_view> keys;
    for (const std::size_t key : chosen) keys.push_back(keys_[key]);
    std::vector<kv::Got> got;
    const Outcome outcome = client.session->get_all(keys, got, fabric_of(client).in(patience));
    if (is_calm() && outcome != Outcome::done) fail("a get was not done");
    if (outcome != Outcome::done) return;
    Did did;
    for (std::size_t i = 0; i < got.size(); ++i) {
      // A key that is gone does not say who erased it.
      if (got[i].version == Timestamp{} && erased_[chosen[i]]) continue;
      did.reads.emplace_back(chosen[i], got[i].version);
      note_value(chosen[i], got[i].version, std::string(got[i].value));
    }
    client.done.push_back(std::move(did));
  }

  /// Whoever writes or reads a version finds in it what everybody else does.
  void note_value(std::size_t key, const Timestamp& version, const std::string& value) {
    const auto [at, is_new] = values_.try_emplace({key, version}, value);
    if (!is_new && at->second != value) fail("two values in one version: " + at->second + " and " + value);
  }
  std::string new_value() {
    std::string value = std::to_string(++value_) + " ";
    value.append(dice_.random() % scenario_.most_value_bytes, 'v');
    return value;
  }

  // ---- What must hold

  void judge() {
    History history;
    history.files.emplace_back("run");
    history.transactions.push_back({0, kNoHistoryId, 0, HistoryTransaction::Outcome::committed, {}});
    for (std::size_t i = 0; i < clients_.size(); ++i) add_client(history, i + 1, clients_[i]);
    if (const auto anomaly = check_read_atomic(history)) {
      std::string evidence = name_of(anomaly->kind);
      for (const std::string& each : anomaly->evidence) evidence += "; " + each;
      fail(evidence);
    }
  }
  void add_client(History& history, std::uint64_t session, ClientSide& client) {
    if (client.under_way && client.session) {
      client.under_way->version = client.session->last_put();
      client.under_way->outcome = HistoryTransaction::Outcome::unknown;
      client.done.push_back(*client.under_way);
    }
    std::int64_t id = 0;
    for (const Did& did : client.done) {
      HistoryTransaction transaction{session, ++id, 0, did.outcome, {}};
      for (const auto& [key, version] : did.reads) {
        transaction.operations.push_back({HistoryOperation::Kind::read, key, number_of(version), ++line_});
      }
      for (const std::size_t key : did.written) {
        transaction.operations.push_back({HistoryOperation::Kind::write, key, number_of(did.version), ++line_});
      }
      history.transactions.push_back(std::move(transaction));
    }
  }
  /// Versions as a history names them; 0: what was there at first.
  std::uint64_t number_of(const Timestamp& version) {
    if (version == Timestamp{}) return 0;
    return numbers_.try_emplace(version, numbers_.size() + 1).first->second;
  }

  // ----

  [[nodiscard]] std::vector<std::size_t> any_keys() {
    std::vector<std::size_t> keys;
    while (keys.empty()) {
      for (std::size_t key = 0; key < keys_.size(); ++key) {
        if (dice_.one_in(2)) keys.push_back(key);
      }
    }
    return keys;
  }
  [[nodiscard]] bool is_calm() const {
    const Network& network = scenario_.network;
    return scenario_.pauses + scenario_.stalls == 0 && scenario_.deaths == 0 && !network.lands_late &&
           !network.stalls_before_posting;
  }
  void fail(const std::string& what) {
    if (!violation_) violation_ = what;
  }

  KvScenario scenario_;
  World world_;
  Scheduler& dice_;
  std::vector<std::string> keys_;
  std::vector<ServerSide> servers_;
  std::vector<ClientSide> clients_;
  std::vector<bool> erased_;  // by key: somebody tried
  std::map<std::pair<std::size_t, Timestamp>, std::string> values_;
  std::map<Timestamp, std::uint64_t> numbers_;
  std::uint64_t value_ = 0;
  std::uint64_t line_ = 0;
  std::optional<std::string> violation_;
};

}  // namespace farside::sim
