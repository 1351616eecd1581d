// gas_run.h — threads that get, put, change, pin and move a few pages at random (src/gas/protocol) on the harshest
// network there is, while ranks stop for longer than a lease and links are down; and what must hold of it.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gas/protocol/page_layout.h"
#include "sim/fault_count.h"
#include "sim/world.h"
#include "tests/sim/gas/page_user.h"
#include "tests/sim/linearizability.h"

namespace farside::sim {

/// Everything about a run but its seed.
struct GasScenario {
  static constexpr std::uint64_t kMaxWords = 2;

  team::Rank ranks = 3;
  std::uint64_t threads = 1;  ///< of each rank
  gas::PageShape shape{.pages = 1, .page_bytes = 8 * kMaxWords, .slots = 2, .cached_places = 1};
  std::uint64_t rounds = 12;
  std::uint64_t one_in_owns = 3;
  int pauses = 0;
  int stalls = 0;
  team::Rank deaths = 0;   ///< of the last ranks
  bool impatient = false;  ///< some give up before they can know
  Network network;
  gas::GasRules rules;

  [[nodiscard]] bool is_calm() const {
    return pauses + stalls == 0 && deaths == 0 && !impatient && !network.lands_late && !network.answers_late &&
           !network.stalls_before_posting && !network.breaks_links;
  }
};

/// Counts the classes of words and slots apart.
inline void name_places(FaultCount& count, const GasScenario& scenario) {
  const gas::PageLayout layout(scenario.shape, scenario.ranks);
  count.call_places([layout](std::string_view /*region*/, std::uint64_t offset) -> std::string {
    if (offset >= layout.slot(0)) return "slot";
    return offset >= layout.first_entry() ? "entry of a page" : "word of a rank";
  });
}

class GasRun {
 public:
  static constexpr Duration kLease = std::chrono::milliseconds(5);

  GasRun(std::uint64_t seed, const GasScenario& scenario)
      : scenario_(scenario),
        world_(seed, scenario.ranks, scenario.network),
        dice_(world_.scheduler()),
        words_(scenario.shape.page_bytes / 8),
        histories_(scenario.shape.pages * words_),
        sides_(scenario.ranks) {}

  [[nodiscard]] World& world() { return world_; }

  /// What went wrong.
  std::optional<std::string> run() {
    for (team::Rank rank = 0; rank < scenario_.ranks; ++rank) {
      world_.on(rank, [this, rank] { live(rank); });
    }
    finish("at work");
    healed_ = true;
    world_.heal();
    for (team::Rank rank = 0; rank < scenario_.ranks; ++rank) {
      if (!is_member(rank)) continue;
      world_.on(rank, [this, rank] {
        world_.fabric(rank).sleep(2 * scenario_.network.detection);
        settle(rank);
      });
    }
    finish("learning who has died, and what of its puts has landed");
    for (team::Rank rank = 0; rank < scenario_.ranks; ++rank) {
      if (is_member(rank)) world_.on(rank, [this, rank] { use_all(rank); });
      finish("using all pages");
    }
    dice_.settle(dice_.now() + kLimit);
    for (std::size_t i = 0; i < histories_.size() && !violation_; ++i) {
      if (const auto wrong = histories_[i].violation()) {
        fail("word " + std::to_string(i % words_) + " of page " + std::to_string(i / words_) + ": " + *wrong);
      }
    }
    return violation_;
  }

 private:
  static constexpr Duration kTimeout = std::chrono::milliseconds(100);
  static constexpr Duration kSettleTimeout = std::chrono::milliseconds(100);
  static constexpr Duration kHaste = std::chrono::microseconds(100);
  static constexpr Duration kLife = std::chrono::microseconds(600);  // in which faults of ranks and links begin
  static constexpr Duration kAwhile = std::chrono::microseconds(20);
  static constexpr Duration kLimit = std::chrono::seconds(60);

  struct Worker : PageUser {
    using PageUser::PageUser;
    std::uint64_t seen = 0;  // the last value that was found
  };
  struct Side {
    std::unique_ptr<gas::PageMemory> memory;
    std::vector<std::unique_ptr<Worker>> workers;
  };

  void finish(const std::string& at) {
    if (!world_.run(kLimit)) fail("a rank was still " + at + " when the time was over");
  }

  /// A rank that was evicted and lives on may believe in outdated places, and that puts are visible which are not.
  [[nodiscard]] bool is_member(team::Rank rank) { return world_.alive(rank) && !world_.evicted(rank); }

  void live(team::Rank rank) {
    Side& side = sides_[rank];
    const auto first_owner = [this](gas::PageId page) { return static_cast<team::Rank>((page + 1) % scenario_.ranks); };
    side.memory = std::make_unique<gas::PageMemory>(
        world_.team(rank), "pages", gas::PageSettings{scenario_.shape, first_owner, kLease}, scenario_.rules);
    if (++ready_ == scenario_.ranks) schedule_faults();
    side.workers.resize(scenario_.threads);
    for (auto& worker : side.workers) {
      world_.on(rank, [this, &side, &worker] {
        worker = std::make_unique<Worker>(*side.memory);
        for (std::uint64_t round = 0; round < scenario_.rounds; ++round) act(*worker);
      });
    }
  }

  void schedule_faults() {
    const auto at_some_moment = [this](auto what) {
      dice_.after(dice_.up_to(kLife), [this, what] {
        if (!healed_) what();
      });
    };
    for (int i = 0; i < scenario_.pauses; ++i) {
      at_some_moment([this] { world_.pause(any_rank(), any_stop()); });
    }
    for (int i = 0; i < scenario_.stalls; ++i) {
      at_some_moment([this] {
        const team::Rank from = any_rank();
        const team::Rank to = any_rank();
        if (from == to) return;
        world_.wires().stall(world_.fabric(from).process(), world_.fabric(to).process(), any_stop());
      });
    }
    for (team::Rank i = 1; i <= scenario_.deaths; ++i) {
      at_some_moment([this, i] { end(scenario_.ranks - i); });
    }
  }

  // It dies, or the others take it for dead.
  void end(team::Rank victim) {
    if (dice_.one_in(3)) return world_.kill(victim);
    for (team::Rank rank = 0; rank < scenario_.ranks; ++rank) {
      if (rank != victim) (void)world_.team(rank).evict(victim, world_.fabric(rank).in(kTimeout));
    }
  }

  // ---- What a thread does

  void act(Worker& worker) {
    if (dice_.one_in(4)) worker.memory.fabric().sleep(dice_.up_to(kAwhile));
    if (dice_.one_in(scenario_.one_in_owns)) return own(worker, any_pages());
    switch (dice_.random() % 8) {
      case 0:
      case 1: return get(worker, any_page(), deadline(worker));
      case 2:
      case 3: return change(worker, any_page(), deadline(worker));
      case 4:
      case 5: return transfer(worker);
      case 6: return pin(worker, any_page());
      default: return change(worker, any_page(), deadline(worker));
    }
  }

  void get(Worker& worker, gas::PageId page, Deadline deadline) {
    Transfer transfer(*this, page, false);
    const std::vector<gas::PagePart> parts = transfer.parts(scenario_.network);
    ended(worker, transfer,
          parts.size() > 1 || dice_.one_in(2) ? worker.accessor.get(parts, deadline)
                                              : worker.accessor.get(parts.front(), deadline));
    if (words_ > 0) worker.seen = transfer.words.back();
  }

  // Words that atomics touch are changed by atomics only: the second of each page, or all of each second page.
  [[nodiscard]] bool is_atomic(gas::PageId page, std::uint64_t word) const {
    return words_ == 1 ? page % 2 == 1 : word == 1;
  }
  void change(Worker& worker, gas::PageId page, Deadline deadline) {
    const std::uint64_t word = dice_.random() % words_;
    if (!is_atomic(page, word)) {
      Transfer transfer(*this, page, true);
      return ended(worker, transfer, worker.accessor.put(transfer.whole(), deadline));
    }
    WordHistory& history = histories_[page * words_ + word];
    Result<std::uint64_t, comm::Status> old{};
    std::size_t number = 0;
    if (dice_.one_in(3)) {
      const std::uint64_t value = ++values_ << 32U;
      number = history.begin({WordAction::Kind::compare_swap, value, worker.seen, 0, ++moment_});
      old = worker.accessor.compare_swap(page, 8 * word, worker.seen, value, deadline);
    } else {
      number = history.begin({WordAction::Kind::add, 1, 0, 0, ++moment_});
      old = worker.accessor.fetch_add(page, 8 * word, 1, deadline);
    }
    expect(old.status);
    if (!old.status.done() || !is_member(worker.memory.self())) return;
    history.end(number, ++moment_, old.value);
    worker.seen = old.value;
  }

  /// What a get or put brings, and how it is known to the words' histories.
  struct Transfer {
    Transfer(GasRun& run, gas::PageId of_page, bool puts) : page(of_page), is_put(puts) {
      const std::uint64_t begin = ++run.moment_;
      count = is_put ? 1 : run.words_;
      if (is_put) words[0] = run.next_value();
      for (std::uint64_t word = 0; word < count; ++word) {
        numbers[word] = run.histories_[page * run.words_ + word].begin(
            {.kind = is_put ? WordAction::Kind::put : WordAction::Kind::get,
             .value = words[word],
             .begin = begin,
             .repeats = is_put && run.scenario_.network.stores_twice});
      }
    }
    [[nodiscard]] gas::PagePart whole() { return {page, 0, LocalSpan(words.data(), 8 * count)}; }
    /// One part, or one for each word where words are split that do not travel alone.
    [[nodiscard]] std::vector<gas::PagePart> parts(const Network& network) {
      if (network.grain_bytes >= 8) return {whole()};
      std::vector<gas::PagePart> parts;
      for (std::uint64_t word = 0; word < count; ++word) parts.push_back({page, 8 * word, LocalSpan(words[word])});
      return parts;
    }

    gas::PageId page;
    bool is_put;
    std::uint64_t count;
    std::array<std::uint64_t, GasScenario::kMaxWords> words{};
    std::array<std::size_t, GasScenario::kMaxWords> numbers{};
  };
  void ended(Worker& worker, const Transfer& transfer, const comm::Status& status) {
    expect(status);
    if (!status.done() || !is_member(worker.memory.self())) return;
    const std::uint64_t end = ++moment_;
    for (std::uint64_t word = 0; word < transfer.count; ++word) {
      histories_[transfer.page * words_ + word].end(transfer.numbers[word], end, transfer.words[word]);
    }
  }

  // Several pages at once.
  void transfer(Worker& worker) {
    std::vector<std::unique_ptr<Transfer>> transfers;
    for (const gas::PageId page : any_pages()) {
      transfers.push_back(std::make_unique<Transfer>(*this, page, !is_atomic(page, 0) && dice_.one_in(2)));
      Transfer& transfer = *transfers.back();
      if (transfer.is_put) {
        worker.accessor.begin_put(transfer.whole());
      } else {
        for (const gas::PagePart& part : transfer.parts(scenario_.network)) worker.accessor.begin_get(part);
      }
    }
    const comm::Status all = worker.accessor.finish(deadline(worker));
    for (const auto& transfer : transfers) ended(worker, *transfer, all);
  }

  void own(Worker& worker, const std::vector<gas::PageId>& pages) {
    expect(worker.mover.own(pages, deadline(worker)).status);
  }

  // Stores in a page that is here, as a program does that has a span of it. Meanwhile it stays here.
  void pin(Worker& worker, gas::PageId page) {
    const auto found = worker.accessor.find(page, deadline(worker));
    if (!found.status.done() || found.known->place.owner != worker.memory.team().rank()) return;
    const gas::KnownPlace known = *found.known;
    gas::Holder holder(worker.memory, worker.accessor.channel(), gas::Holder::For::a_span);
    if (!holder.cover(page, known.sampled)) return;
    if (!is_atomic(page, 0)) {
      const std::uint64_t value = next_value();
      WordHistory& history = histories_[page * words_];
      const auto number = history.begin({.kind = WordAction::Kind::put, .value = value, .begin = ++moment_});
      worker.memory.own_word(known.place.slot, 0).store(value);
      worker.memory.fabric().sleep(dice_.up_to(kAwhile));
      look_for_move(worker, known);
      holder.let_go();
      if (is_member(worker.memory.self())) history.end(number, ++moment_);
    } else {
      worker.memory.fabric().sleep(dice_.up_to(kAwhile));
      look_for_move(worker, known);
      holder.let_go();
    }
  }
  void look_for_move(Worker& worker, const gas::KnownPlace& pinned) {
    gas::Location place;
    const auto limit = worker.memory.fabric().in(kTimeout);
    if (!worker.accessor.directory().look({&pinned.page, 1}, {&place, 1}, limit).done()) return;
    if (place.owner != pinned.place.owner || place.slot != pinned.place.slot) fail("a pinned page was moved");
  }

  // Where nothing is late and no rank stops, nothing fails.
  void expect(const comm::Status& status) {
    if (scenario_.is_calm() && !status.done()) fail("something " + std::string(to_string(status.outcome)));
  }

  // ---- When all faults are over

  // Whatever a living rank has given up is over.
  void settle(team::Rank rank) {
    for (const auto& worker : sides_[rank].workers) {
      worker->accessor.settle(worker->memory.fabric().in(kSettleTimeout));
      if (worker->accessor.is_in_doubt()) fail("rank " + std::to_string(rank) + " holds what it has given up");
    }
  }

  // Every page whose home and owner live can be used, and moved.
  void use_all(team::Rank rank) {
    Worker& worker = *sides_[rank].workers.front();
    const auto soon = [&] { return worker.memory.fabric().in(kTimeout); };
    const std::size_t living = count_living();
    for (gas::PageId page = 0; page < scenario_.shape.pages; ++page) {
      if (!is_member(worker.memory.layout().home_of(page))) continue;
      if (!is_member(place_of(worker, page).owner)) continue;
      const std::string whose = " page " + std::to_string(page) + " by rank " + std::to_string(rank);
      get(worker, page, soon());
      change(worker, page, soon());
      const auto moved = worker.mover.own({&page, 1}, soon());
      if (!moved.status.done())
        fail("no moving of" + whose + ", " + std::string(to_string(moved.status.outcome)) +
             (moved.status.lost ? " because of rank " + std::to_string(*moved.status.lost) : ""));
      if (moved.full && living == scenario_.ranks) fail("no slot for" + whose);
      if (!moved.full && place_of(worker, page).owner != rank) fail("nothing was moved of" + whose);
      get(worker, page, soon());
      change(worker, page, soon());
    }
    if (count_living() != living) fail("rank " + std::to_string(rank) + " took a living rank for dead");
  }
  gas::Location place_of(Worker& worker, gas::PageId page) {
    gas::Location place;
    const auto limit = worker.memory.fabric().in(kTimeout);
    if (!worker.accessor.directory().look({&page, 1}, {&place, 1}, limit).done()) fail("no answer from a home");
    return place;
  }
  std::size_t count_living() {
    std::size_t living = 0;
    for (team::Rank rank = 0; rank < scenario_.ranks; ++rank) living += is_member(rank) ? 1 : 0;
    return living;
  }

  // ----

  /// Both halves of a word show which put it is of.
  [[nodiscard]] std::uint64_t next_value() {
    const std::uint64_t value = ++values_;
    return value << 32U | value;
  }
  [[nodiscard]] team::Rank any_rank() { return static_cast<team::Rank>(dice_.random() % scenario_.ranks); }
  /// Some last longer than every time-out.
  [[nodiscard]] Duration any_stop() { return dice_.up_to(dice_.one_in(4) ? 3 * kTimeout : 4 * kLease); }
  [[nodiscard]] gas::PageId any_page() { return dice_.random() % scenario_.shape.pages; }
  [[nodiscard]] std::vector<gas::PageId> any_pages() {
    std::vector<gas::PageId> pages{any_page()};
    for (gas::PageId page = 0; page < scenario_.shape.pages; ++page) {
      if (page != pages.front() && dice_.one_in(2)) pages.push_back(page);
    }
    return pages;
  }
  [[nodiscard]] Deadline deadline(Worker& worker) {
    const bool in_haste = scenario_.impatient && dice_.one_in(4);
    return worker.memory.fabric().in(in_haste ? dice_.up_to(kHaste) : kTimeout);
  }
  void fail(const std::string& what) {
    if (!violation_) violation_ = what;
  }

  const GasScenario scenario_;
  World world_;
  Scheduler& dice_;
  const std::uint64_t words_;  // of a page
  std::vector<WordHistory> histories_;
  std::vector<Side> sides_;
  std::uint64_t moment_ = 0;
  std::uint64_t values_ = 0;
  team::Rank ready_ = 0;
  bool healed_ = false;
  std::optional<std::string> violation_;
};

}  // namespace farside::sim
