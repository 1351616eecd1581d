// far_nodes.h — nodes that lend memory (src/far/protocol) on the simulated network, and what must be left of it there.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "farside/base/error.h"

#include "far/protocol/lender.h"
#include "far/protocol/lent_memory.h"
#include "far/protocol/rules.h"
#include "far/protocol/slab_map.h"
#include "sim/world.h"

namespace farside::sim {

/// Everything about a run but its seed.
struct FarScenario {
  team::Rank nodes = 2;
  team::Rank clients = 2;
  std::uint64_t threads = 1;  ///< of each client
  far::SlabNumber slabs = 6;  ///< of each node
  std::uint64_t space_slabs = 3;
  std::uint32_t copies = 1;
  std::uint64_t block_bytes = 16;  ///< one or two pages
  int rounds = 16;
  int pauses = 0;
  int stalls = 0;
  team::Rank deaths = 0;      ///< of the last clients
  bool mistaken = false;      ///< a node takes the first client for dead
  bool node_dies = false;     ///< the last one
  bool another_dies = false;  ///< and when all is well again, the first one
  bool impatient = false;     ///< some give up before they can know
  int hangs = 0;              ///< a node does not answer for a while, and clients look out for that
  far::AnswerLimits limits{.read = std::chrono::milliseconds(1), .look = std::chrono::microseconds(300), .looks = 3};
  Network network;
  far::FarRules rules;

  [[nodiscard]] bool is_calm() const {
    return pauses + stalls + hangs == 0 && deaths == 0 && !mistaken && !node_dies && !impatient &&
           !network.lands_late && !network.answers_late && !network.stalls_before_posting && !network.breaks_links;
  }
  [[nodiscard]] bool has_room() const { return nodes * (slabs - 1) >= clients * copies * space_slabs; }
};

/// Those of a scenario: the first ranks of its world. Clients, the ranks after them, are numbered through.
class FarNodes {
 public:
  static constexpr std::uint64_t kSlabBytes = 64;
  static constexpr Duration kTimeout = std::chrono::milliseconds(40);
  static constexpr Duration kAwhile = std::chrono::microseconds(20);
  static constexpr int kJoinAttempts = 10;

  FarNodes(World& world, const FarScenario& scenario)
      : world_(world), scenario_(scenario), nodes_(scenario.nodes), left_(scenario.clients) {}

  [[nodiscard]] team::Rank rank_of(std::size_t client) const {
    return static_cast<team::Rank>(scenario_.nodes + client);
  }

  /// What a node does until its clients have gone.
  void lend(team::Rank rank) {
    Node& node = nodes_[rank];
    Fabric& fabric = world_.fabric(rank);
    node.channel = fabric.open_channel();
    node.table = fabric.create_region("table", far::table_bytes(scenario_.slabs));
    node.memory = fabric.create_region("memory", scenario_.slabs * kSlabBytes);
    node.backing = std::make_unique<ZeroingBacking>(*node.memory);
    const far::LenderSettings settings{.slab_bytes = kSlabBytes, .slabs = scenario_.slabs, .stock = 2};
    node.holders.resize(scenario_.clients);
    node.ended.resize(scenario_.clients);
    node.lender = std::make_unique<far::Lender>(fabric, *node.channel, *node.table, rank, *node.backing, settings,
                                                scenario_.rules);
    while (!all_gone(node)) {
      for (std::size_t client = 0; client < scenario_.clients; ++client) end_if_gone(rank, client);
      if (node.lender->step()) continue;
      world_.scheduler().one_in(8) ? node.lender->rest(fabric.in(10 * kAwhile))
                                   : fabric.sleep(5 * kAwhile);  // to wait costs events
    }
  }

  [[nodiscard]] bool all_lend() {
    for (team::Rank rank = 0; rank < scenario_.nodes; ++rank) {
      if (nodes_[rank].lender == nullptr && world_.alive(rank)) return false;
    }
    return true;
  }

  /// A client comes to a node that lends. Throws Error when that died, or took the client for dead.
  [[nodiscard]] std::unique_ptr<far::LentMemory> join(std::size_t client, team::Rank rank) {
    Node& node = nodes_[rank];
    Fabric& fabric = world_.fabric(rank_of(client));
    node.holders[client] = node.lender->welcome();
    for (int attempt = 1;; ++attempt) {
      try {
        return std::make_unique<far::LentMemory>(fabric, fabric.attach(rank, node.table->handle()),
                                                 fabric.attach(rank, node.memory->handle()), node.holders[client]);
      } catch (const Error&) {  // perhaps a link broke
        if (fabric.lost(rank) || !scenario_.network.breaks_links || attempt == kJoinAttempts) throw;
      }
    }
  }
  /// It closes its sockets.
  void leave(std::size_t client) { left_[client] = true; }
  /// The same, at one node, which it gave up.
  void hang_up(team::Rank rank, std::size_t client) { given_up_.insert({rank, client}); }
  [[nodiscard]] bool given_up(team::Rank rank, std::size_t client) const { return given_up_.contains({rank, client}); }

  void take_for_dead(team::Rank rank, std::size_t client) { mistaken_.insert({rank, client}); }
  [[nodiscard]] bool takes_for_dead(team::Rank rank, std::size_t client) const {
    return mistaken_.contains({rank, client});
  }

  /// What is wrong when all clients have gone, and whatever was late has landed: nothing may be left behind.
  [[nodiscard]] std::optional<std::string> look() {
    for (team::Rank rank = 0; rank < scenario_.nodes; ++rank) {
      if (!world_.alive(rank)) continue;
      for (far::SlabNumber slab = 0; slab < scenario_.slabs; ++slab) {
        const auto word = nodes_[rank].table->word<AtomicWord>(far::word_offset(slab)).load();
        const far::SlabState state = far::SlabWord::of(word).state;
        if (state != far::SlabState::bare && state != far::SlabState::free) return "a slab was never given back";
        std::array<std::byte, kSlabBytes> bytes{};
        nodes_[rank].memory->copy_out(slab * kSlabBytes, bytes);
        if (std::ranges::any_of(bytes, [](std::byte each) { return each != std::byte{0}; })) {
          return "a slab that may be taken is not zero";
        }
      }
    }
    return std::nullopt;
  }

 private:
  class ZeroingBacking final : public far::Backing {
   public:
    explicit ZeroingBacking(const Region& memory) : memory_(memory) {}
    bool provide(far::SlabNumber /*slab*/) override { return true; }
    void take_back(far::SlabNumber slab) override {
      const std::array<std::byte, kSlabBytes> zeros{};
      memory_.copy_in(slab * kSlabBytes, zeros);
    }

   private:
    const Region& memory_;
  };

  struct Node {
    std::unique_ptr<Channel> channel;
    std::unique_ptr<Region> table;
    std::unique_ptr<Region> memory;
    std::unique_ptr<ZeroingBacking> backing;
    std::unique_ptr<far::Lender> lender;
    std::vector<far::Holder> holders;  // by client; 0: not there, or no more
    std::vector<bool> ended;
  };

  [[nodiscard]] bool all_gone(const Node& node) {
    for (std::size_t client = 0; client < scenario_.clients; ++client) {
      if (!node.ended[client] && (node.holders[client] != 0 || world_.alive(rank_of(client)))) return false;
    }
    return true;
  }

  void end_if_gone(team::Rank rank, std::size_t client) {
    Node& node = nodes_[rank];
    if (node.holders[client] == 0 || node.ended[client]) return;
    const bool socket_ended = left_[client] || given_up(rank, client) || world_.fabric(rank).lost(rank_of(client));
    const bool killed_by_another =
        scenario_.network.revoking_kills && is_mistaken(client) && !world_.alive(rank_of(client));
    if (!socket_ended && !killed_by_another && !takes_for_dead(rank, client)) return;
    const Deadline deadline = world_.fabric(rank).in(kTimeout);
    if (node.lender->end(node.holders[client], rank_of(client), far::Parting::gone, deadline) != Outcome::done) return;
    node.ended[client] = true;
  }

  [[nodiscard]] bool is_mistaken(std::size_t client) const {
    return std::ranges::any_of(mistaken_, [client](const auto& each) { return each.second == client; });
  }

  World& world_;
  const FarScenario& scenario_;
  std::vector<Node> nodes_;
  std::vector<bool> left_;                                 // by client
  std::set<std::pair<team::Rank, std::size_t>> mistaken_;  // which node takes which client for dead
  std::set<std::pair<team::Rank, std::size_t>> given_up_;  // which node was given up by which client
};

}  // namespace farside::sim
