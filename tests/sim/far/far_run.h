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

#include "far/protocol/lender_watch.h"
#include "far/protocol/striped_space.h"
#include "sim/world.h"
#include "tests/sim/far/far_nodes.h"

namespace farside::sim {

class FarRun {
 public:
  static constexpr std::uint64_t kSlabBytes = FarNodes::kSlabBytes;
  static constexpr std::uint64_t kPageBytes = 16;
  static constexpr std::uint64_t kPagesOfSlab = kSlabBytes / kPageBytes;

  FarRun(std::uint64_t seed, const FarScenario& scenario)
      : scenario_(scenario),
        world_(seed, scenario.nodes + scenario.clients, scenario.network),
        nodes_(world_, scenario_),
        clients_(scenario.clients) {}

  [[nodiscard]] World& world() { return world_; }

  /// What went wrong.
  std::optional<std::string> run() {
    for (team::Rank rank = 0; rank < scenario_.nodes; ++rank) {
      world_.on(rank, [this, rank] { nodes_.lend(rank); });
    }
    for (std::size_t number = 0; number < clients_.size(); ++number) {
      world_.on(rank_of(number), [this, number] { live(number); });
    }
    schedule_faults();
    if (!world_.run(kLimit)) fail("a rank did not end");
    dice().settle(dice().now() + kLatest);
    if (const auto wrong = nodes_.look()) fail(*wrong);
    return violation_;
  }

 private:
  static constexpr Duration kTimeout = FarNodes::kTimeout;
  static constexpr Duration kHaste = std::chrono::microseconds(60);
  static constexpr Duration kLife = std::chrono::microseconds(1500);  // in which faults of ranks and links begin
  static constexpr Duration kMaxStop = std::chrono::milliseconds(10);
  static constexpr Duration kAwhile = FarNodes::kAwhile;
  static constexpr Duration kLimit = std::chrono::seconds(60);
  static constexpr Duration kLatest = std::chrono::seconds(1);  // after which nothing lands that was late

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
    bool repaired = false;
    bool over = false;
  };

  [[nodiscard]] Scheduler& dice() { return world_.scheduler(); }
  [[nodiscard]] team::Rank rank_of(std::size_t client) const { return nodes_.rank_of(client); }

  // ---- Clients

  void live(std::size_t number) {
    Client& client = clients_[number];
    const team::Rank rank = rank_of(number);
    Fabric& fabric = world_.fabric(rank);
    while (!nodes_.all_lend()) fabric.sleep(kAwhile);
    if (dice().one_in(2)) fabric.sleep(dice().up_to(kLife));  // and takes what others left
    const far::SpaceShape shape{scenario_.space_slabs * kSlabBytes, kSlabBytes, scenario_.copies,
                                scenario_.block_bytes};
    client.space = std::make_unique<far::StripedSpace>(fabric, rank, shape, scenario_.rules, scenario_.limits);
    client.pages.assign(shape.bytes / kPageBytes, Page{0});
    client.busy.resize(client.pages.size());
    client.discards.resize(scenario_.space_slabs);
    for (team::Rank node = 0; node < scenario_.nodes; ++node) join(number, node);
    client.begun = true;
    client.working = scenario_.threads;
    for (std::uint64_t thread = 0; thread < scenario_.threads; ++thread) {
      world_.on(rank, [this, number] { work(number); });
    }
    if (scenario_.hangs != 0) world_.on(rank, [this, number] { watch(number); });
    repair(number);
    finish(number);
    client.over = true;
    nodes_.leave(number);
  }

  void join(std::size_t number, team::Rank rank) {
    if (!world_.alive(rank)) return;
    try {
      clients_[number].space->slabs().add(nodes_.join(number, rank));
    } catch (const Error&) {  // it died, or took us for dead
    }
  }

  void watch(std::size_t number) {
    Client& client = clients_[number];
    far::LenderWatch watch(client.space->slabs());
    while (!client.over) {
      for (const far::LenderWatch::Event& event : watch.look()) {
        if (event.news == far::LenderWatch::News::given_up) nodes_.hang_up(event.peer, number);
      }
      world_.fabric(rank_of(number)).sleep(5 * kAwhile);
    }
  }

  void repair(std::size_t number) {
    Client& client = clients_[number];
    Fabric& fabric = world_.fabric(rank_of(number));
    const auto channel = fabric.open_channel();
    while (client.working != 0) {
      fabric.sleep(kAwhile);
      (void)client.space->slabs().repair(fabric.in(kTimeout));
    }
    client.finished = true;
    while (!all_living(&Client::finished)) fabric.sleep(kAwhile);
    if (!std::exchange(healed_, true)) world_.heal();
    while (scenario_.node_dies && world_.alive(scenario_.nodes - 1)) fabric.sleep(kAwhile);
    fabric.sleep(2 * scenario_.network.detection);
    client.space->slabs().find_lost(*channel, fabric.in(kTimeout));
    for (int i = 0; i < 1000 && !all_answer(client); ++i) fabric.sleep(5 * kAwhile);
    for (int i = 0; i < 5 && !client.space->slabs().repair(fabric.in(kTimeout)); ++i) fabric.sleep(kAwhile);
  }

  [[nodiscard]] static bool all_answer(Client& client) {
    return std::ranges::none_of(client.space->slabs().living(), &far::LentMemory::unresponsive);
  }

  // What all clients wrote is still there, also when another node dies now.
  void finish(std::size_t number) {
    Client& client = clients_[number];
    Fabric& fabric = world_.fabric(rank_of(number));
    const auto io = client.space->open_io();
    for (std::uint64_t page = 0; page < client.pages.size(); ++page) read(number, *io, {page}, fabric.in(kTimeout));
    client.repaired = true;
    if (!scenario_.another_dies) return;
    while (!all_living(&Client::repaired)) fabric.sleep(kAwhile);
    if (!std::exchange(another_died_, true)) world_.kill(0);
    fabric.sleep(2 * scenario_.network.detection);
    for (std::uint64_t page = 0; page < client.pages.size(); ++page) read(number, *io, {page}, fabric.in(kTimeout));
  }

  void work(std::size_t number) {
    Client& client = clients_[number];
    Fabric& fabric = world_.fabric(rank_of(number));
    const auto io = client.space->open_io();
    for (int round = 0; round < scenario_.rounds; ++round) {
      if (dice().one_in(4)) fabric.sleep(dice().up_to(kAwhile));
      const bool in_haste = scenario_.impatient && dice().one_in(4);
      const Deadline deadline = fabric.in(in_haste ? dice().up_to(kHaste) : kTimeout);
      switch (dice().random() % 8) {
        case 0: discard(number, *io, deadline); break;
        case 1:
        case 2:
        case 3: read(number, *io, any_pages(client), deadline); break;
        default: write(number, *io, any_pages(client), deadline);
      }
    }
    --client.working;
  }

  // A page is one thread's at a time, in a slab that they share. Some here and there, or up to four in a row.
  std::vector<std::uint64_t> any_pages(const Client& client) {
    std::vector<std::uint64_t> pages;
    const std::uint64_t in_a_row = dice().one_in(2) ? 1 + dice().random() % 4 : 0;
    const std::uint64_t first = dice().random() % client.pages.size();
    for (std::uint64_t page = 0; page < client.pages.size(); ++page) {
      const bool wanted = in_a_row == 0 ? dice().one_in(4) : page >= first && page < first + in_a_row;
      if (wanted && !client.busy[page]) pages.push_back(page);
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
  // Neighbours travel as one.
  static Buffers buffers_for(const std::vector<std::uint64_t>& pages, std::uint64_t value) {
    Buffers buffers;
    buffers.words.resize(pages.size());
    for (auto& page : buffers.words) page.fill(value);
    for (std::size_t i = 0; i < pages.size();) {
      const std::size_t begin = i++;
      while (i < pages.size() && pages[i] == pages[i - 1] + 1) ++i;
      auto* const first = reinterpret_cast<std::byte*>(&buffers.words[begin]);
      buffers.list.push_back({pages[begin] * kPageBytes, LocalSpan(first, (i - begin) * kPageBytes)});
    }
    return buffers;
  }

  void read(std::size_t number, far::IoContext& io, const std::vector<std::uint64_t>& pages, Deadline deadline) {
    Client& client = clients_[number];
    const Buffers buffers = buffers_for(pages, 0);
    mark_busy(client, pages, true);
    const far::Status status = io.read(buffers.list, deadline);
    mark_busy(client, pages, false);
    expect(number, status);
    if (status != far::Status::done) return;
    for (std::size_t i = 0; i < pages.size(); ++i) {
      for (const std::uint64_t word : buffers.words[i]) {
        if (may_be_read(client.pages[pages[i]], word)) continue;
        fail("client " + std::to_string(number) + " read " + hexadecimal(word) + " in page " +
             std::to_string(pages[i]));
      }
    }
  }

  /// Where words are split, a write that may still take effect, or take effect in part, may have changed half of one.
  [[nodiscard]] bool may_be_read(const Page& may_hold, std::uint64_t word) const {
    if (may_hold.contains(word)) return true;
    if (scenario_.network.grain_bytes >= 8) return false;
    const auto has = [&](std::uint64_t mask) {
      return std::ranges::any_of(may_hold, [=](std::uint64_t value) { return ((value ^ word) & mask) == 0; });
    };
    return has(0xFFFF'FFFF) && has(0xFFFF'FFFF'0000'0000);
  }

  void write(std::size_t number, far::IoContext& io, const std::vector<std::uint64_t>& pages, Deadline deadline) {
    const std::uint64_t value = (number + 1) << 32U | ++values_;
    const Buffers buffers = buffers_for(pages, value);
    const std::vector<Discards> before = clients_[number].discards;
    mark_busy(clients_[number], pages, true);
    const far::Status status = io.write(buffers.list, deadline);
    mark_busy(clients_[number], pages, false);
    expect(number, status);
    for (const std::uint64_t page : pages) {
      became(number, page, value, status);
      if (may_be_discarded(number, page, before)) clients_[number].pages[page].insert(0);
    }
  }

  // Of a slab, or of one or two of its pages; others have pages there as well. What they write meanwhile may be gone
  // afterwards, or not.
  void discard(std::size_t number, far::IoContext& io, Deadline deadline) {
    Client& client = clients_[number];
    const std::uint64_t slab = dice().random() % scenario_.space_slabs;
    const std::uint64_t count = dice().one_in(2) ? kPagesOfSlab : 1 + dice().random() % 2;
    const std::uint64_t first = slab * kPagesOfSlab + dice().random() % (kPagesOfSlab - count + 1);
    ++client.discards[slab].under_way;
    ++client.discards[slab].begun;
    for (std::uint64_t page = first; page < first + count; ++page) client.pages[page].insert(0);
    const far::Status status = io.discard(first * kPageBytes, count * kPageBytes, deadline);
    expect(number, status);
    --client.discards[slab].under_way;  // one that timed out is over before any later write begins
    if (scenario_.threads != 1) return;
    for (std::uint64_t page = first; page < first + count; ++page) became(number, page, 0, status);
  }

  void became(std::size_t number, std::uint64_t page, std::uint64_t value, far::Status status) {
    Client& client = clients_[number];
    Page& may_hold = client.pages[page];
    if (status == far::Status::done) may_hold.clear();
    may_hold.insert(value);
  }

  // By another thread, while this one wrote.
  bool may_be_discarded(std::size_t number, std::uint64_t page, const std::vector<Discards>& before) {
    const std::uint64_t slab = page / kPagesOfSlab;
    const Discards& now = clients_[number].discards[slab];
    return scenario_.threads != 1 && (before[slab].under_way != 0 || before[slab].begun != now.begun);
  }

  void expect(std::size_t number, far::Status status) {
    if (status == far::Status::lost && !may_lose(number)) fail("something was lost");
    if (status == far::Status::full && scenario_.is_calm() && scenario_.has_room()) fail("there was no room");
    if (status == far::Status::timed_out && scenario_.is_calm()) fail("something timed out");
  }
  /// Nodes that are lost to it are as many as there are copies. What it gives up alone takes nothing from it.
  bool may_lose(std::size_t number) {
    std::uint32_t dead = 0;
    std::uint32_t lost = 0;
    for (team::Rank rank = 0; rank < scenario_.nodes; ++rank) {
      const bool is_dead = !world_.alive(rank) || nodes_.takes_for_dead(rank, number);
      dead += is_dead ? 1 : 0;
      lost += is_dead || nodes_.given_up(rank, number) ? 1 : 0;
    }
    if (dead == 0) return false;
    if (another_died_ && scenario_.nodes == 3 && scenario_.has_room()) --lost;  // what was lost before it was repaired
    return lost >= scenario_.copies;
  }

  // ----

  void schedule_faults() {
    const auto at_some_moment = [this](auto what) { dice().after(dice().up_to(kLife), what); };
    for (int i = 0; i < scenario_.pauses; ++i) {
      at_some_moment([this] {
        if (!healed_) world_.pause(any_rank(), any_stop());
      });
    }
    for (int i = 0; i < scenario_.stalls; ++i) {
      at_some_moment([this] {
        const team::Rank from = any_rank();
        const team::Rank to = any_rank();
        if (from == to || healed_) return;
        world_.wires().stall(world_.fabric(from).process(), world_.fabric(to).process(), any_stop());
      });
    }
    for (int i = 0; i < scenario_.hangs; ++i) {
      at_some_moment([this] { hang(static_cast<team::Rank>(dice().random() % scenario_.nodes), any_stop()); });
    }
    if (scenario_.mistaken) {
      at_some_moment([this] {
        world_.pause(rank_of(0), any_stop());
        nodes_.take_for_dead(static_cast<team::Rank>(dice().random() % scenario_.nodes), 0);
      });
    }
    if (scenario_.node_dies) {
      at_some_moment([this] { world_.kill(scenario_.nodes - 1); });
    }
    for (team::Rank i = 1; i <= scenario_.deaths; ++i) {
      at_some_moment([this, i] { world_.kill(world_.size() - i); });
    }
  }

  // As a stopped process does over TCP: what is sent to it is carried out when it continues, if at all.
  void hang(team::Rank node, Duration duration) {
    if (healed_) return;
    world_.pause(node, duration);
    const ProcessId process = world_.fabric(node).process();
    for (std::size_t number = 0; number < clients_.size(); ++number) {
      const ProcessId client = world_.fabric(rank_of(number)).process();
      world_.wires().stall(client, process, duration);
      world_.wires().stall(process, client, duration);
    }
  }

  /// Some last longer than every time-out.
  [[nodiscard]] Duration any_stop() { return dice().up_to(dice().one_in(4) ? 3 * kTimeout : kMaxStop); }
  [[nodiscard]] team::Rank any_rank() { return static_cast<team::Rank>(dice().random() % world_.size()); }
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
  FarNodes nodes_;
  std::vector<Client> clients_;
  std::uint64_t values_ = 0;
  bool healed_ = false;
  bool another_died_ = false;
  std::optional<std::string> violation_;
};

}  // namespace farside::sim
