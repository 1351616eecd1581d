// kv_world.h — servers and clients of a store (src/kv/protocol) on the harshest network there is, while servers and
// clients stop and clients die: their faults, but not what the clients do.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kv/replication/shipping_ring.h"
#include "kv_baselines/team_store.h"
#include "sim/world.h"

namespace farside::sim {

/// Everything about a run but its seed.
struct KvScenario {
  kv::ServerNumber servers = 2;
  team::Rank clients = 2;
  std::size_t keys = 4;
  int rounds = 12;
  std::uint64_t one_in_erases = 0;
  std::uint64_t one_in_conditions = 0;  ///< of the gets: what was found is written, if it is the newest still
  std::uint64_t one_in_expires = 0;
  std::uint64_t most_value_bytes = 24;
  std::uint64_t memory_bytes = 128U << 10U;    ///< of a server
  std::uint64_t superseded_bytes = 1U << 20U;  ///< kept for the grace time
  Duration grace = std::chrono::milliseconds(10);
  Duration termination_timeout = std::chrono::milliseconds(5);  ///< of servers
  Duration timeout = std::chrono::milliseconds(200);            ///< of clients' calls; may be shorter than stops
  bool stops_servers_only = false;
  int stutters = 0;      ///< the first server takes a few steps and stops, so often; each stop may outlast a call
  Duration most_skew{};  ///< of clients' clocks
  int pauses = 0;
  int stalls = 0;
  team::Rank deaths = 0;     ///< of the last clients
  bool server_dies = false;  ///< the last one
  bool has_standbys = false;
  bool is_suspected = false;  ///< the last server: its standby is told that it is dead, but it is only slow
  bool standby_dies = false;  ///< that of the first server
  bool has_spares = false;    ///< which become the standbys of servers that have lost theirs
  /// And the last server, or the standby that has taken its place, dies when its spare has all that it has, or else
  /// while that is taught; or the spare is told that it is dead, but it is only slow.
  enum class Then : std::uint8_t { none, dies_when_full, dies_when_taught, suspected_when_full } then = Then::none;
  int breaks = 0;                      ///< of the connection from the last server to its standby
  Duration longest_relink{};           ///< until it is made anew
  bool breaks_when_suspected = false;  ///< as well: the taking over comes while it is made anew, or a little later
  std::optional<Duration> lease{};     ///< as between hosts
  /// For a while the first client, which only reads, does not reach the last server's standby, nor that it.
  bool is_apart = false;
  Duration apart = std::chrono::milliseconds(8);
  std::uint64_t ring_bytes = 4096;
  kv::ShippingSettings shipping{};  ///< may be shorter than stops, as may the following
  kv::TellingTimeouts telling{};
  kv::ReplyTimeouts replies{};
  Duration first_slice = kv::Homes::kFirstSlice;
  Duration longest_stop = std::chrono::milliseconds(20);
  kv::ReplicaRules replica_rules{};
  Network network;
  kv::KvRules rules;

  /// Values so large that the servers are full. A put of them is slow, not stuck: a copy gives way once in 32 bytes,
  /// and a thread that priorities put off takes one such step in up to 128 us; six values, copied four times, take half
  /// a second.
  void fill() {
    most_value_bytes = 6000;
    memory_bytes = 64U << 10U;
    timeout = std::chrono::seconds(2);
  }
  /// Stops and stalls longer than every limit of the protocol, but that of a client whose mailbox is given up: nothing
  /// opens another one here. (kv_mailbox_sim_test.cc has that.)
  void stop_for_longer_than_limits(Scheduler& dice) {
    constexpr Duration kLeast = std::chrono::milliseconds(4);
    const Duration limit = kLeast + dice.up_to(kLeast);
    telling = {.answer = limit, .between_attempts = limit / 8};
    replies.attempt = limit / 2;
    replies.between_attempts = first_slice = limit;
    replies.most_between_attempts = 4 * limit;
    shipping.look = limit / 2;
    shipping.between_looks = limit;
    longest_stop = 8 * limit;
    apart = 2 * limit;
  }
  [[nodiscard]] bool is_filled() const { return most_value_bytes == 6000; }

  [[nodiscard]] bool is_calm() const {
    return pauses + stalls == 0 && deaths == 0 && !server_dies && !is_suspected && !standby_dies && !is_apart &&
           stutters == 0 && breaks == 0 && timeout >= std::chrono::milliseconds(200) &&
           termination_timeout >= std::chrono::milliseconds(5) && !network.lands_late && !network.answers_late &&
           !network.stalls_before_posting && !network.breaks_links;
  }
};

class KvWorld {
 public:
  /// Longer than a session waits for a primary before it looks whether the standby serves (Homes::kFirstSlice, 250 ms).
  static constexpr Duration kTimeoutAfterFaults = std::chrono::seconds(1);
  static constexpr Duration kAwhile = std::chrono::microseconds(20);

  struct Client {
    std::size_t number;
    team::Rank rank;
    std::unique_ptr<kv::SessionStack> with_session{};  ///< null: it has not begun
    bool finished = false;                             ///< its work
    bool ended = false;

    [[nodiscard]] kv::AtomicSession& session() { return with_session->session(); }
  };
  using Deed = std::function<void(Client&)>;

  KvWorld(std::uint64_t seed, const KvScenario& scenario)
      : scenario_(scenario), world_(seed, seats() + scenario.clients, scenario.network), sides_(world_.size()) {
    for (team::Rank rank = seats(); rank < world_.size(); ++rank) clients_.push_back({clients_.size(), rank});
  }

  /// Each client works, and looks about when all have and all faults are over. False: a rank did not end.
  bool run(const Deed& work, const Deed& look) {
    for (team::Rank rank = 0; rank < world_.size(); ++rank) {
      world_.on(rank, [this, rank, &work, &look] { live(rank, work, look); });
    }
    return world_.run(kLimit);
  }

  /// Whether the server that has the key lives.
  [[nodiscard]] bool serves(std::string_view key) {
    const team::Rank server = kv::server_of(kv::key_id(key), scenario_.servers);
    const bool has_standby = scenario_.has_standbys && world_.alive(standby_of(server));
    return world_.alive(server) || has_standby || (scenario_.has_spares && is_full(spare_of(server)));
  }
  /// A spare has had all that its primary has; of `run`.
  [[nodiscard]] bool was_any_taught() const noexcept { return was_any_taught_; }
  /// But spares whose primary died before they had all.
  [[nodiscard]] bool has_standby_given_up() {
    const bool may_spares = scenario_.then == KvScenario::Then::dies_when_taught;
    const std::span sides(sides_.begin(), may_spares ? 2 * scenario_.servers : sides_.size());
    return std::ranges::any_of(sides, [](const auto& side) { return side != nullptr && side->has_given_up(); });
  }
  /// Clients that a standby ended since it could not tell them that it serves; of `run`.
  [[nodiscard]] std::uint64_t cut_off() {
    const auto is_cut_off = [this](const Client& each) {
      return !world_.alive(each.rank) && each.rank < world_.size() - scenario_.deaths;
    };
    return static_cast<std::uint64_t>(std::ranges::count_if(clients_, is_cut_off));
  }
  /// By operation and region; the words of rings and epochs apart. The count outlives this.
  void count_faults(FaultCount& count) {
    count.call_places([seats = seats()](std::string_view region, std::uint64_t offset) {
      std::string name(region);
      if (region.starts_with("kv rings")) return name + (offset == kv::ShippingRing::kTaken ? ": taken" : ": frames");
      if (region == "kv epochs") return name + (offset < seats * sizeof(ControlWord) ? ": epoch" : ": alone");
      return name;
    });
    world_.wires().count_faults(count);
  }
  [[nodiscard]] Scheduler& dice() { return world_.scheduler(); }
  [[nodiscard]] Fabric& fabric_of(const Client& client) { return world_.fabric(client.rank); }
  [[nodiscard]] Deadline deadline_of(const Client& client) {
    return fabric_of(client).in(healed_ ? kTimeoutAfterFaults : scenario_.timeout);
  }

 private:
  static constexpr Duration kLife = std::chrono::microseconds(1500);  // in which faults of ranks and links begin
  static constexpr Duration kFewSteps = std::chrono::microseconds(40);
  static constexpr Duration kLimit = std::chrono::seconds(60);

  void live(team::Rank rank, const Deed& work, const Deed& look) {
    auto& side = sides_[rank] = std::make_unique<kv_baselines::TeamStore>(world_.team(rank), options(rank));
    if (side->serves()) return side->serve_until([this] { return all_living(&Client::ended); });
    Client& client = clients_[rank - seats()];
    client.with_session = side->open_session(0, settings());
    if (++ready_ == clients_.size()) schedule_faults();
    work(client);
    client.finished = true;
    while (!all_living(&Client::finished)) fabric_of(client).sleep(10 * kAwhile);  // each look costs events
    if (!std::exchange(healed_, true)) world_.heal();
    fabric_of(client).sleep(2 * scenario_.network.detection);
    look(client);
    client.ended = true;
    if (!all_living(&Client::ended)) return;
    for (const team::Rank suspected : ends_at_last_) world_.kill(suspected);
  }

  [[nodiscard]] kv_baselines::TeamStoreOptions options(team::Rank rank) {
    const auto reach_again = [this, rank](team::Rank standby) {
      const Duration relink = dice().up_to(scenario_.longest_relink);
      if (relink != Duration::zero()) world_.fabric(rank).sleep(relink);
      world_.fabric(rank).connect(standby, world_.fabric(standby).address());
      return true;
    };
    const auto join = [this](team::Rank spare, team::Rank joining) {
      const bool is_there = world_.alive(spare) && sides_[spare] != nullptr;
      return is_there ? sides_[spare]->admit(joining) : std::nullopt;
    };
    const auto ship = [this](team::Rank spare, team::Rank primary) {
      return world_.alive(spare) && sides_[spare] != nullptr && sides_[spare]->follow(primary);
    };
    return {.servers = scenario_.servers,
            .copies = scenario_.has_standbys ? 2U : 1U,
            .has_spares = scenario_.has_spares,
            .store = {.bytes = scenario_.memory_bytes,
                      .grace = scenario_.grace,
                      .superseded_bytes = scenario_.superseded_bytes},
            .mailbox = {.slots = 2, .slot_bytes = 1024},
            .termination_timeout = scenario_.termination_timeout,
            .ring_bytes = scenario_.ring_bytes,
            .shipping = scenario_.shipping,
            .telling = scenario_.telling,
            .replies = scenario_.replies,
            .first_slice = scenario_.first_slice,
            .reach_again = reach_again,
            .join = join,
            .ship = ship,
            .joins_early = rank % 2 == 0,
            .revoke_limit = scenario_.network.long_latency,
            .lease = scenario_.lease,
            .rules = scenario_.rules,
            .replica_rules = scenario_.replica_rules};
  }
  [[nodiscard]] kv::SessionSettings settings() {
    kv::SessionSettings settings;
    settings.way = static_cast<kv::ReadWay>(dice().random() % 3);
    settings.siblings = static_cast<kv::SiblingsKind>(dice().random() % 3);
    settings.cached_keys = 1 + dice().random() % scenario_.keys;
    settings.grace = scenario_.grace;
    settings.wall.ahead = dice().up_to(scenario_.most_skew);
    return settings;
  }

  void schedule_faults() {
    const auto at_some_moment = [this](auto what) { dice().after(dice().up_to(kLife), what); };
    for (int i = 0; i < scenario_.pauses; ++i) {
      at_some_moment([this] {
        const team::Rank rank = scenario_.stops_servers_only ? any_of(scenario_.servers) : any_rank();
        world_.pause(rank, dice().up_to(scenario_.longest_stop));
      });
    }
    stutter(scenario_.stutters);
    for (int i = 0; i < scenario_.stalls; ++i) {
      at_some_moment([this] {
        const team::Rank from = any_rank();
        const team::Rank to = any_rank();
        if (from == to) return;
        const Duration stop = dice().up_to(scenario_.longest_stop);
        world_.wires().stall(world_.fabric(from).process(), world_.fabric(to).process(), stop);
      });
    }
    for (int i = 0; i < scenario_.breaks; ++i) {
      at_some_moment([this] { break_connection(); });
    }
    if (scenario_.server_dies) {
      at_some_moment([this] { world_.kill(scenario_.servers - 1); });
    }
    if (scenario_.standby_dies) {
      at_some_moment([this] { world_.kill(standby_of(0)); });
    }
    if (scenario_.has_spares) watch_teaching();
    if (scenario_.is_suspected) {
      at_some_moment([this] {
        if (scenario_.is_apart) part();
        if (scenario_.breaks_when_suspected) break_connection();
        dice().after(scenario_.breaks_when_suspected ? dice().up_to(2 * scenario_.longest_relink) : Duration{}, [this] {
          const team::Rank server = scenario_.servers - 1;
          world_.declare_dead(server, standby_of(server));
          ends_at_last_.push_back(server);
        });
      });
    } else if (scenario_.is_apart) {
      at_some_moment([this] { part(); });
    }
    for (team::Rank i = 1; i <= scenario_.deaths; ++i) {
      at_some_moment([this, i] { world_.kill(world_.size() - i); });
    }
  }
  void stutter(int left) {
    if (left == 0 || healed_) return;
    dice().after(dice().up_to(kFewSteps), [this, left] {
      const Duration stop = dice().up_to(2 * scenario_.timeout);
      world_.pause(0, stop);
      dice().after(stop, [this, left] { stutter(left - 1); });
    });
  }
  void watch_teaching() {
    using Standing = kv::ShippingJournal::Standing;
    using Then = KvScenario::Then;
    const team::Rank first = scenario_.servers - 1;
    const bool has_moved = scenario_.server_dies || scenario_.is_suspected;
    const team::Rank server = has_moved ? standby_of(first) : first;
    if (healed_ || !world_.alive(server)) return;
    was_any_taught_ = was_any_taught_ || is_full(spare_of(first));
    const bool is_taught = sides_[server] != nullptr && sides_[server]->standing() == Standing::taught;
    if (scenario_.then == Then::suspected_when_full && was_any_taught_) {
      return dice().after(dice().up_to(kLife / 4), [this, server, first] {
        world_.declare_dead(server, spare_of(first));
        ends_at_last_.push_back(server);
      });
    }
    const bool dies = (scenario_.then == Then::dies_when_full && was_any_taught_) ||
                      (scenario_.then == Then::dies_when_taught && is_taught);
    if (dies) return dice().after(dice().up_to(kLife / 4), [this, server] { world_.kill(server); });
    dice().after(kFewSteps, [this] { watch_teaching(); });
  }
  void break_connection() {
    const team::Rank server = scenario_.servers - 1;
    world_.fabric(server).break_connection(standby_of(server));
  }
  void part() {
    const auto client = world_.fabric(clients_.front().rank).process();
    const auto standby = world_.fabric(standby_of(scenario_.servers - 1)).process();
    world_.wires().stall(client, standby, scenario_.apart);
    world_.wires().stall(standby, client, scenario_.apart);
  }
  [[nodiscard]] team::Rank seats() const {
    const team::Rank each = scenario_.has_spares ? 3 : scenario_.has_standbys ? 2 : 1;
    return each * scenario_.servers;
  }
  [[nodiscard]] bool is_full(team::Rank standby) {
    return world_.alive(standby) && sides_[standby] != nullptr && sides_[standby]->is_full_standby();
  }
  [[nodiscard]] team::Rank spare_of(team::Rank server) const { return 2 * scenario_.servers + server; }
  [[nodiscard]] team::Rank standby_of(team::Rank server) const { return scenario_.servers + server; }
  [[nodiscard]] team::Rank any_of(team::Rank ranks) { return static_cast<team::Rank>(dice().random() % ranks); }
  [[nodiscard]] team::Rank any_rank() { return any_of(world_.size()); }
  [[nodiscard]] bool all_living(bool Client::*have) {
    return std::ranges::all_of(clients_, [&](const Client& each) { return each.*have || !world_.alive(each.rank); });
  }

  KvScenario scenario_;
  World world_;
  std::vector<std::unique_ptr<kv_baselines::TeamStore>> sides_;  // by rank
  std::vector<Client> clients_;
  team::Rank ready_ = 0;
  std::vector<team::Rank> ends_at_last_;  // each would go on for seconds: it tries to reach its standby
  bool was_any_taught_ = false;
  bool healed_ = false;
};

}  // namespace farside::sim
