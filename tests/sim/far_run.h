// far_run.h — clients that write, read and discard pages in memory that nodes lend (src/far/protocol), on the harshest
// network there is, while clients stop, are taken for dead and die, and a node dies; and what must hold of it.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "farside/base/error.h"

#include "far/protocol/lender.h"
#include "far/protocol/striped_space.h"
#include "sim/world.h"

namespace farside::sim {

/// Everything about a run but its seed.
struct FarScenario {
  Rank nodes = 2;
  Rank clients = 2;
  std::uint64_t threads = 1;  ///< of each client
  far::SlabNumber slabs = 6;  ///< of each node
  std::uint64_t space_slabs = 3;
  std::uint32_t copies = 1;
  int rounds = 16;
  int pauses = 0;
  int stalls = 0;
  Rank deaths = 0;            ///< of the last clients
  bool mistaken = false;      ///< a node takes the first client for dead
  bool node_dies = false;     ///< the last one
  bool another_dies = false;  ///< and when all is well again, the first one
  bool impatient = false;     ///< some give up before they can know
  Network network;
  far::FarRules rules;

  [[nodiscard]] bool is_calm() const {
    return pauses + stalls == 0 && deaths == 0 && !mistaken && !node_dies && !impatient && !network.lands_late &&
           !network.stalls_before_posting;
  }
  [[nodiscard]] bool has_room() const { return nodes * (slabs - 1) >= clients * copies * space_slabs; }
};

class FarRun {
 public:
  static constexpr std::uint64_t kSlabBytes = 64;
  static constexpr std::uint64_t kPageBytes = 16;
  static constexpr std::uint64_t kPagesOfSlab = kSlabBytes / kPageBytes;

  FarRun(std::uint64_t seed, const FarScenario& scenario)
      : scenario_(scenario),
        world_(seed, scenario.nodes + scenario.clients, scenario.network),
        nodes_(scenario.nodes),
        clients_(scenario.clients) {}

  [[nodiscard]] World& world() { return world_; }

  /// What went wrong.
  std::optional<std::string> run() {
    for (Rank rank = 0; rank < scenario_.nodes; ++rank) {
      world_.on(rank, [this, rank] { lend(rank); });
    }
    for (std::size_t number = 0; number < clients_.size(); ++number) {
      world_.on(rank_of(number), [this, number] { live(number); });
    }
    befall();
    if (!world_.run(kLimit)) fail("somebody did not end");
    dice().settle(dice().now() + kLimit);
    look_at_nodes();
    return violation_;
  }

 private:
  static constexpr Duration kPatience = std::chrono::milliseconds(40);
  static constexpr Duration kHaste = std::chrono::microseconds(60);
  static constexpr Duration kLife = std::chrono::microseconds(1500);  // in which things befall ranks and links
  static constexpr Duration kLongestStop = std::chrono::milliseconds(10);
  static constexpr Duration kAwhile = std::chrono::microseconds(20);
  static constexpr Duration kLimit = std::chrono::seconds(60);

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

  /// What a page may hold: one of these values in each of its words.
  using Page = std::set<std::uint64_t>;

  struct Discards {
    int under_way = 0;
    int begun = 0;
  };
  struct Client {
    std::unique_ptr<far::StripedSpace> space;
    std::vector<Page> pages;
    std::vector<bool> busy;          // a thread reads or writes that page
    std::vector<Discards> discards;  // by slab
    std::size_t working = 0;
    bool begun = false;
    bool finished = false;  ///< its work
    bool mended = false;
    bool ended = false;
  };

  [[nodiscard]] Scheduler& dice() { return world_.scheduler(); }
  [[nodiscard]] Rank rank_of(std::size_t client) const { return static_cast<Rank>(scenario_.nodes + client); }

  // ---- Nodes

  void lend(Rank rank) {
    Node& node = nodes_[rank];
    Fabric& fabric = world_.fabric(rank);
    node.channel = fabric.open_channel();
    node.table = fabric.create_region("table", far::table_bytes(scenario_.slabs));
    node.memory = fabric.create_region("memory", scenario_.slabs * kSlabBytes);
    node.backing = std::make_unique<ZeroingBacking>(*node.memory);
    const far::LenderSettings settings{.slab_bytes = kSlabBytes, .slabs = scenario_.slabs, .stock = 2};
    node.holders.resize(clients_.size());
    node.ended.resize(clients_.size());
    node.lender = std::make_unique<far::Lender>(fabric, *node.channel, *node.table, rank, *node.backing, settings,
                                                scenario_.rules);
    while (!all_gone(node)) {
      for (std::size_t number = 0; number < clients_.size(); ++number) end_if_gone(rank, number);
      if (node.lender->step()) continue;
      dice().one_in(8) ? node.lender->rest(fabric.in(10 * kAwhile))
                       : fabric.sleep(5 * kAwhile);  // to wait costs events
    }
  }

  bool all_gone(const Node& node) {
    for (std::size_t number = 0; number < clients_.size(); ++number) {
      if (!node.ended[number] && (node.holders[number] != 0 || world_.alive(rank_of(number)))) return false;
    }
    return true;
  }

  void end_if_gone(Rank rank, std::size_t number) {
    Node& node = nodes_[rank];
    if (node.holders[number] == 0 || node.ended[number]) return;
    const Rank client = rank_of(number);
    const bool socket_ended = clients_[number].ended || world_.fabric(rank).lost(client);
    const bool killed_by_another = scenario_.network.revoking_kills && is_mistaken(number) && !world_.alive(client);
    if (!socket_ended && !killed_by_another && !mistaken_.contains({rank, number})) return;
    if (node.lender->end(node.holders[number], client, far::Parting::gone, world_.fabric(rank).in(kPatience)) !=
        Outcome::done) {
      return;
    }
    node.ended[number] = true;
  }

  bool is_mistaken(std::size_t number) const {
    return std::ranges::any_of(mistaken_, [number](const auto& each) { return each.second == number; });
  }

  // When everybody has gone, and whatever was late has landed: nothing is left behind.
  void look_at_nodes() {
    for (Rank rank = 0; rank < scenario_.nodes; ++rank) {
      if (!world_.alive(rank)) continue;
      for (far::SlabNumber slab = 0; slab < scenario_.slabs; ++slab) {
        const auto word = nodes_[rank].table->word<AtomicWord>(far::word_offset(slab)).load();
        const far::SlabState state = far::SlabWord::of(word).state;
        if (state != far::SlabState::bare && state != far::SlabState::free) fail("a slab was never given back");
        std::array<std::byte, kSlabBytes> bytes{};
        nodes_[rank].memory->copy_out(slab * kSlabBytes, bytes);
        if (std::ranges::any_of(bytes, [](std::byte each) { return each != std::byte{0}; })) {
          fail("a slab that may be taken is not zero");
        }
      }
    }
  }

  // ---- Clients

  void live(std::size_t number) {
    Client& client = clients_[number];
    const Rank rank = rank_of(number);
    Fabric& fabric = world_.fabric(rank);
    while (!all_nodes_lend()) fabric.sleep(kAwhile);
    if (dice().one_in(2)) fabric.sleep(dice().up_to(kLife));  // and takes what others left
    const far::SpaceShape shape{scenario_.space_slabs * kSlabBytes, kSlabBytes, scenario_.copies};
    client.space = std::make_unique<far::StripedSpace>(fabric, rank, shape, scenario_.rules);
    client.pages.assign(shape.bytes / kPageBytes, Page{0});
    client.busy.resize(client.pages.size());
    client.discards.resize(scenario_.space_slabs);
    for (Rank node = 0; node < scenario_.nodes; ++node) join(number, node);
    client.begun = true;
    client.working = scenario_.threads;
    for (std::uint64_t thread = 0; thread < scenario_.threads; ++thread) {
      world_.on(rank, [this, number] { work(number); });
    }
    mend(number);
    finish(number);
    client.ended = true;
  }

  bool all_nodes_lend() {
    for (Rank rank = 0; rank < scenario_.nodes; ++rank) {
      if (nodes_[rank].lender == nullptr && world_.alive(rank)) return false;
    }
    return true;
  }

  void join(std::size_t number, Rank rank) {
    if (!world_.alive(rank)) return;
    Node& node = nodes_[rank];
    Fabric& fabric = world_.fabric(rank_of(number));
    node.holders[number] = node.lender->welcome();
    try {
      clients_[number].space->slabs().add(
          std::make_unique<far::LentMemory>(fabric, fabric.attach(rank, node.table->handle()),
                                            fabric.attach(rank, node.memory->handle()), node.holders[number]));
    } catch (const Error&) {  // it died, or took us for dead
    }
  }

  void mend(std::size_t number) {
    Client& client = clients_[number];
    Fabric& fabric = world_.fabric(rank_of(number));
    const auto channel = fabric.open_channel();
    while (client.working != 0) {
      fabric.sleep(kAwhile);
      (void)client.space->slabs().mend(fabric.in(kPatience));
    }
    client.finished = true;
    while (!all_living(&Client::finished)) fabric.sleep(kAwhile);
    if (!std::exchange(healed_, true)) world_.heal();
    while (scenario_.node_dies && world_.alive(scenario_.nodes - 1)) fabric.sleep(kAwhile);
    fabric.sleep(2 * scenario_.network.detection);
    client.space->slabs().find_lost(*channel, fabric.in(kPatience));
    for (int i = 0; i < 5 && !client.space->slabs().mend(fabric.in(kPatience)); ++i) fabric.sleep(kAwhile);
  }

  // What everybody wrote is still there, also when another node dies now.
  void finish(std::size_t number) {
    Client& client = clients_[number];
    Fabric& fabric = world_.fabric(rank_of(number));
    const auto lane = client.space->open_lane();
    for (std::uint64_t page = 0; page < client.pages.size(); ++page) read(number, *lane, {page}, fabric.in(kPatience));
    client.mended = true;
    if (!scenario_.another_dies) return;
    while (!all_living(&Client::mended)) fabric.sleep(kAwhile);
    if (!std::exchange(another_died_, true)) world_.kill(0);
    fabric.sleep(2 * scenario_.network.detection);
    for (std::uint64_t page = 0; page < client.pages.size(); ++page) read(number, *lane, {page}, fabric.in(kPatience));
  }

  void work(std::size_t number) {
    Client& client = clients_[number];
    Fabric& fabric = world_.fabric(rank_of(number));
    const auto lane = client.space->open_lane();
    for (int round = 0; round < scenario_.rounds; ++round) {
      if (dice().one_in(4)) fabric.sleep(dice().up_to(kAwhile));
      const bool in_haste = scenario_.impatient && dice().one_in(4);
      const Deadline deadline = fabric.in(in_haste ? dice().up_to(kHaste) : kPatience);
      switch (dice().random() % 8) {
        case 0: discard(number, *lane, deadline); break;
        case 1:
        case 2:
        case 3: read(number, *lane, any_pages(client), deadline); break;
        default: write(number, *lane, any_pages(client), deadline);
      }
    }
    --client.working;
  }

  // A page is one thread's at a time, in a slab that they share.
  std::vector<std::uint64_t> any_pages(const Client& client) {
    std::vector<std::uint64_t> pages;
    for (std::uint64_t page = 0; page < client.pages.size(); ++page) {
      if (!client.busy[page] && dice().one_in(4)) pages.push_back(page);
    }
    return pages;
  }

  static void mark_busy(Client& client, const std::vector<std::uint64_t>& pages, bool busy) {
    for (const std::uint64_t page : pages) client.busy[page] = busy;
  }

  struct Buffers {
    std::vector<std::array<std::uint64_t, kPageBytes / 8>> words;
    std::vector<far::Transfer> list;
  };
  static Buffers buffers_for(const std::vector<std::uint64_t>& pages, std::uint64_t value) {
    Buffers buffers;
    buffers.words.resize(pages.size());
    for (std::size_t i = 0; i < pages.size(); ++i) {
      buffers.words[i].fill(value);
      buffers.list.push_back({pages[i] * kPageBytes, LocalSpan(buffers.words[i])});
    }
    return buffers;
  }

  void read(std::size_t number, far::Lane& lane, const std::vector<std::uint64_t>& pages, Deadline deadline) {
    Client& client = clients_[number];
    const Buffers buffers = buffers_for(pages, 0);
    mark_busy(client, pages, true);
    const far::Result result = lane.read(buffers.list, deadline);
    mark_busy(client, pages, false);
    expect(number, result);
    if (result != far::Result::done) return;
    for (std::size_t i = 0; i < pages.size(); ++i) {
      for (const std::uint64_t word : buffers.words[i]) {
        if (client.pages[pages[i]].contains(word)) continue;
        fail("client " + std::to_string(number) + " read " + hexadecimal(word) + " in page " +
             std::to_string(pages[i]));
      }
    }
  }

  void write(std::size_t number, far::Lane& lane, const std::vector<std::uint64_t>& pages, Deadline deadline) {
    const std::uint64_t value = (number + 1) << 32U | ++values_;
    const Buffers buffers = buffers_for(pages, value);
    const std::vector<Discards> before = clients_[number].discards;
    mark_busy(clients_[number], pages, true);
    const far::Result result = lane.write(buffers.list, deadline);
    mark_busy(clients_[number], pages, false);
    expect(number, result);
    for (const std::uint64_t page : pages) {
      became(number, page, value, result);
      if (may_be_discarded(number, page, before)) clients_[number].pages[page].insert(0);
    }
  }

  // Of a slab, in which others have pages as well. What they write meanwhile may be gone afterwards, or not.
  void discard(std::size_t number, far::Lane& lane, Deadline deadline) {
    Client& client = clients_[number];
    const std::uint64_t slab = dice().random() % scenario_.space_slabs;
    const bool whole = dice().one_in(2);
    const std::uint64_t first = slab * kPagesOfSlab;
    ++client.discards[slab].under_way;
    ++client.discards[slab].begun;
    for (std::uint64_t page = first; page < first + kPagesOfSlab; ++page) client.pages[page].insert(0);
    const std::uint64_t bytes = whole ? kSlabBytes : kPageBytes;
    const far::Result result = lane.discard(first * kPageBytes, bytes, deadline);
    expect(number, result);
    if (result != far::Result::timed_out) --client.discards[slab].under_way;  // or else it counts as under way for ever
    if (scenario_.threads != 1) return;
    for (std::uint64_t page = first; page < first + bytes / kPageBytes; ++page) became(number, page, 0, result);
  }

  void became(std::size_t number, std::uint64_t page, std::uint64_t value, far::Result result) {
    Client& client = clients_[number];
    Page& may_hold = client.pages[page];
    if (result == far::Result::done) may_hold.clear();
    may_hold.insert(value);
  }

  // By another thread, while this one wrote.
  bool may_be_discarded(std::size_t number, std::uint64_t page, const std::vector<Discards>& before) {
    const std::uint64_t slab = page / kPagesOfSlab;
    const Discards& now = clients_[number].discards[slab];
    return scenario_.threads != 1 && (before[slab].under_way != 0 || before[slab].begun != now.begun);
  }

  void expect(std::size_t number, far::Result result) {
    if (result == far::Result::lost && !may_lose(number)) fail("something was lost");
    if (result == far::Result::full && scenario_.is_calm() && scenario_.has_room()) fail("there was no room");
    if (result == far::Result::timed_out && scenario_.is_calm()) fail("something timed out");
  }
  /// Nodes that are lost to it are as many as there are copies.
  bool may_lose(std::size_t number) {
    std::uint32_t lost = 0;
    for (Rank rank = 0; rank < scenario_.nodes; ++rank) {
      if (!world_.alive(rank) || mistaken_.contains({rank, number})) ++lost;
    }
    if (another_died_ && scenario_.nodes == 3 && scenario_.has_room()) --lost;  // what was lost before it was mended
    return lost >= scenario_.copies;
  }

  // ----

  void befall() {
    const auto at_some_moment = [this](auto what) { dice().after(dice().up_to(kLife), what); };
    for (int i = 0; i < scenario_.pauses; ++i) {
      at_some_moment([this] { world_.pause(any_rank(), dice().up_to(kLongestStop)); });
    }
    for (int i = 0; i < scenario_.stalls; ++i) {
      at_some_moment([this] {
        const Rank from = any_rank();
        const Rank to = any_rank();
        if (from == to) return;
        world_.wires().stall(world_.fabric(from).process(), world_.fabric(to).process(), dice().up_to(kLongestStop));
      });
    }
    if (scenario_.mistaken) {
      at_some_moment([this] {
        world_.pause(rank_of(0), dice().up_to(kLongestStop));
        mistaken_.insert({static_cast<Rank>(dice().random() % scenario_.nodes), 0});
      });
    }
    if (scenario_.node_dies) {
      at_some_moment([this] { world_.kill(scenario_.nodes - 1); });
    }
    for (Rank i = 1; i <= scenario_.deaths; ++i) {
      at_some_moment([this, i] { world_.kill(world_.size() - i); });
    }
  }

  [[nodiscard]] Rank any_rank() { return static_cast<Rank>(dice().random() % world_.size()); }
  [[nodiscard]] bool all_living(bool Client::*have) {
    for (std::size_t number = 0; number < clients_.size(); ++number) {
      if (!(clients_[number].*have) && world_.alive(rank_of(number))) return false;
    }
    return true;
  }
  void fail(const std::string& what) {
    if (!violation_) violation_ = what;
  }

  const FarScenario scenario_;
  World world_;
  std::vector<Node> nodes_;
  std::vector<Client> clients_;
  std::set<std::pair<Rank, std::size_t>> mistaken_;  // which node takes which client for dead
  std::uint64_t values_ = 0;
  bool healed_ = false;
  bool another_died_ = false;
  std::optional<std::string> violation_;
};

}  // namespace farside::sim
