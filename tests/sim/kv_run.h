// kv_run.h — sessions that put, erase and get a few keys at random (src/kv/protocol) on the harshest network there is,
// while servers and clients stop and clients die; and what must hold of it: the history is Read Atomic, session by
// session, every value is the one that was written, and when all faults are over everybody can read everything.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kv/history/read_atomic.h"
#include "kv/in_team.h"
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
  Network network;
  kv::KvRules rules;
};

class KvRun {
 public:
  static constexpr Duration kGrace = std::chrono::milliseconds(10);

  KvRun(std::uint64_t seed, const KvScenario& scenario)
      : scenario_(scenario),
        world_(seed, scenario.servers + scenario.clients, scenario.network),
        dice_(world_.scheduler()),
        sides_(world_.size()),
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
  static constexpr Duration kAwhile = std::chrono::microseconds(20);
  static constexpr std::uint64_t kMemoryBytes = 128U << 10U;

  /// What a client did, as it will stand in the history.
  struct Did {
    HistoryTransaction::Outcome outcome = HistoryTransaction::Outcome::committed;
    Timestamp version{};                                     // of a put
    std::vector<std::size_t> written{};                      // by a put
    std::vector<std::pair<std::size_t, Timestamp>> reads{};  // key, version found
  };
  struct ClientSide {
    Rank rank;
    std::unique_ptr<kv::TeamSession> session;
    std::vector<Did> done;
    std::optional<Did> under_way;  // a put of which nothing is known yet
    bool finished = false;         // its rounds
    bool ended = false;
  };

  // ---- Who lives how

  void live(Rank rank) {
    auto& side = sides_[rank] = std::make_unique<kv::InTeam>(world_.team(rank), options());
    if (++ready_ == world_.size()) befall();
    if (side->serves()) return side->serve_until([this] { return all_living(&ClientSide::ended); });
    ClientSide& client = clients_[rank - scenario_.servers];
    client.rank = rank;
    client.session = side->open_session(0, settings());
    for (int round = 0; round < scenario_.rounds; ++round) act(client);
    client.finished = true;
    while (!all_living(&ClientSide::finished)) fabric_of(client).sleep(kAwhile);
    if (!std::exchange(healed_, true)) world_.heal();
    fabric_of(client).sleep(2 * scenario_.network.detection);
    get(client, all_keys(), true);
    client.ended = true;
  }

  [[nodiscard]] kv::InTeamOptions options() const {
    return {.servers = scenario_.servers,
            .store = {.bytes = kMemoryBytes, .grace = kGrace},
            .mailbox = {.slots = 2, .slot_bytes = 1024},
            .patience = kGrace / 2,
            .rules = scenario_.rules};
  }
  [[nodiscard]] kv::SessionSettings settings() {
    kv::SessionSettings settings;
    settings.way = static_cast<kv::ReadWay>(dice_.random() % 3);
    settings.siblings = static_cast<kv::SiblingsKind>(dice_.random() % 3);
    settings.cached_keys = 1 + dice_.random() % scenario_.keys;
    settings.grace = kGrace;
    settings.ahead = dice_.up_to(scenario_.most_skew);
    return settings;
  }

  void befall() {
    const auto at_some_moment = [this](auto what) { dice_.after(dice_.up_to(kLife), what); };
    for (int i = 0; i < scenario_.pauses; ++i) {
      at_some_moment([this] { world_.pause(any_rank(), dice_.up_to(2 * kGrace)); });
    }
    for (int i = 0; i < scenario_.stalls; ++i) {
      at_some_moment([this] {
        const Rank from = any_rank();
        const Rank to = any_rank();
        if (from == to) return;
        world_.wires().stall(world_.fabric(from).process(), world_.fabric(to).process(), dice_.up_to(2 * kGrace));
      });
    }
    for (Rank i = 1; i <= scenario_.deaths; ++i) {
      at_some_moment([this, i] { world_.kill(world_.size() - i); });
    }
  }
  [[nodiscard]] Rank any_rank() { return static_cast<Rank>(dice_.random() % world_.size()); }
  [[nodiscard]] bool all_living(bool ClientSide::*have) {
    return std::ranges::all_of(clients_,
                               [&](const ClientSide& each) { return each.*have || !world_.alive(each.rank); });
  }

  // ---- What a client does

  void act(ClientSide& client) {
    if (dice_.one_in(4)) fabric_of(client).sleep(dice_.up_to(kAwhile));
    if (dice_.one_in(2)) return put(client);
    get(client, any_keys(), is_calm());
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
    const kv::PutOutcome outcome = client.session->session().put_all(writes, fabric_of(client).in(kPatience));
    client.under_way.reset();
    did.version = client.session->session().last_put();
    did.outcome = outcome == kv::PutOutcome::done      ? HistoryTransaction::Outcome::committed
                  : outcome == kv::PutOutcome::unknown ? HistoryTransaction::Outcome::unknown
                                                       : HistoryTransaction::Outcome::aborted;
    if (is_calm() && outcome == kv::PutOutcome::unknown) fail("a put was not answered");
    for (std::size_t i = 0; i < writes.size(); ++i) note_value(did.written[i], did.version, values[i]);
    if (outcome == kv::PutOutcome::done) {
      for (const std::size_t key : did.written) returned_[key] = std::max(returned_[key], did.version);
    }
    client.done.push_back(std::move(did));
  }

  void get(ClientSide& client, const std::vector<std::size_t>& chosen, bool must_succeed) {
    std::vector<std::string_view> keys;
    for (const std::size_t key : chosen) keys.push_back(keys_[key]);
    const std::map<std::size_t, Timestamp> returned = returned_;  // before it begins
    std::vector<kv::Got> got;
    const Outcome outcome = client.session->session().get_all(keys, got, fabric_of(client).in(kPatience));
    if (outcome != Outcome::done) {
      if (must_succeed) fail("a get " + std::string(to_string(outcome)));
      return;
    }
    Did did;
    for (std::size_t i = 0; i < got.size(); ++i) {
      // A key that is gone does not say who erased it.
      if (got[i].version == Timestamp{} && erased_[chosen[i]]) continue;
      did.reads.emplace_back(chosen[i], got[i].version);
      note_value(chosen[i], got[i].version, std::string(got[i].value));
      const auto put = returned.find(chosen[i]);
      if (put != returned.end() && got[i].version < put->second) fail("a put that had returned was not seen");
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
    if (violation_) return;
    if (const auto anomaly = check_read_atomic(history)) {
      std::string evidence = name_of(anomaly->kind);
      for (const std::string& each : anomaly->evidence) evidence += "; " + each;
      fail(evidence);
    }
    for (const ClientSide& client : clients_) judge_causality(client);
  }
  /// What the checker does not ask: who has seen a transaction at one key sees it at all others, in whatever it reads
  /// later.
  void judge_causality(const ClientSide& client) {
    std::map<std::size_t, Timestamp> floors;
    for (const Did& did : client.done) {
      for (const auto& [key, version] : did.reads) {
        if (version < floors[key]) fail("of a transaction that a session had seen it missed a part");
      }
      for (const auto& [key, version] : did.reads) {
        const auto written = written_.find(version);
        if (written == written_.end()) continue;
        for (const std::size_t sibling : written->second) floors[sibling] = std::max(floors[sibling], version);
      }
    }
  }
  void add_client(History& history, std::uint64_t session, ClientSide& client) {
    if (client.under_way && client.session) {
      client.under_way->version = client.session->session().last_put();
      client.under_way->outcome = HistoryTransaction::Outcome::unknown;
      client.done.push_back(*client.under_way);
    }
    std::int64_t id = 0;
    for (const Did& did : client.done) {
      HistoryTransaction transaction{session, ++id, 0, did.outcome, {}};
      for (const auto& [key, version] : did.reads) {
        transaction.operations.push_back({HistoryOperation::Kind::read, key, number_of(version), ++line_});
      }
      if (!did.written.empty() && !written_.try_emplace(did.version, did.written).second) {
        return fail("two transactions have one timestamp");
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

  [[nodiscard]] Fabric& fabric_of(const ClientSide& client) { return world_.fabric(client.rank); }
  [[nodiscard]] std::vector<std::size_t> all_keys() const {
    std::vector<std::size_t> keys(keys_.size());
    std::iota(keys.begin(), keys.end(), 0);
    return keys;
  }
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
  std::vector<std::unique_ptr<kv::InTeam>> sides_;  // by rank
  std::vector<ClientSide> clients_;
  std::vector<bool> erased_;  // by key: somebody tried
  std::map<std::pair<std::size_t, Timestamp>, std::string> values_;
  std::map<Timestamp, std::uint64_t> numbers_;
  std::map<Timestamp, std::vector<std::size_t>> written_;  // keys, by transaction
  std::map<std::size_t, Timestamp> returned_;              // by key: the newest put that has returned
  Rank ready_ = 0;
  bool healed_ = false;
  std::uint64_t value_ = 0;
  std::uint64_t line_ = 0;
  std::optional<std::string> violation_;
};

}  // namespace farside::sim
