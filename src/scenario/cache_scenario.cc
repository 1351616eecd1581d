#include "scenario/cache_scenario.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "scenario/cache_words.h"
#include "scenario/directory_check.h"
#include "scenario/imaginary_files.h"

namespace farside::scenario {

namespace {

using team::Rank;

constexpr Duration kLimit = std::chrono::minutes(10);
constexpr Duration kTimeout = std::chrono::milliseconds(300);  // of a read while faults last: many leases
constexpr Duration kLongTimeout = std::chrono::seconds(10);    // outlasts all stalls, and a peer that is left alone
constexpr Duration kHaste = std::chrono::microseconds(100);
constexpr Duration kLongPause = std::chrono::seconds(3);  // longer than any time-out
static_assert(kLongPause > cache::time_limits::kPeer);
constexpr Duration kShortStall = std::chrono::milliseconds(100);
constexpr Duration kLife = std::chrono::milliseconds(2);  // the time in which faults are injected

cache::CacheOptions options_of(const CacheScenario& scenario) {
  cache::CacheOptions options;
  options.cache_bytes = scenario.slots * kBlockBytes;
  options.block_bytes = kBlockBytes;
  options.groups = scenario.groups;
  options.loading_lease = std::chrono::milliseconds(scenario.lease_ms);
  return options;
}

class Run {
 public:
  Run(std::uint64_t seed, const CacheScenario& scenario, bool keep_steps, sim::FaultCount* count)
      : scenario_(scenario),
        options_(options_of(scenario)),
        world_(seed, static_cast<Rank>(scenario.nodes), scenario.network),
        caches_(scenario.nodes),
        reading_(scenario.nodes),
        restarts_left_(scenario.restarts) {
    const CacheWords words(options_, world_.size(), scenario.blocks);
    if (count != nullptr) {
      world_.wires().count_faults(*count);
      count->call_places([words](std::string_view /*region*/, std::uint64_t offset) { return words.place(offset); });
    }
    if (!keep_steps) return;
    world_.scheduler().keep_steps();
    world_.scheduler().call_words(words);
  }

  CacheResult run() {
    read_while_faults_last();
    if (!violation_) read_after_healing();
    if (!violation_) look_at_directory();
    std::vector<std::string> steps = world_.scheduler().steps();
    if (violation_) steps.resize(std::min(steps.size(), steps_to_violation_));
    return {violation_, world_.scheduler().hash(), loads_, std::move(steps)};
  }

 private:
  // A file system that takes its time and fills a slot piece by piece.
  class Source final : public cache::BlockSource {
   public:
    Source(Run& run, Rank node) : run_(run), node_(node) {}
    std::uint64_t load(const cache::BlockKey& key, LocalSpan into) override {
      run_.note(node_, "reads block " + std::to_string(block_of(key)) + " from the file system");
      ++run_.loads_;
      ++run_.loads_of_[block_of(key)];
      for (std::uint64_t at = 0; at < kBlockWords; ++at) {
        const Duration most = std::chrono::microseconds(run_.scenario_.load_us);
        run_.world_.fabric(node_).sleep(run_.world_.scheduler().up_to(most));
        const std::uint64_t word = word_of(key, at);
        std::memcpy(into.adapter_data() + at * 8, &word, 8);
      }
      return kBlockWords * 8;
    }

   private:
    Run& run_;
    Rank node_;
  };

  // ---- While faults last ----

  void read_while_faults_last() {
    for (Rank node = 0; node < world_.size(); ++node) {
      world_.on(node, [this, node] { live(node); });
    }
    if (!world_.run(kLimit)) fail("a node was still waiting when the time was over");
    healed_ = true;
    for (Rank node = 0; node < world_.size(); ++node) come_back(node);
    if (!world_.run(kLimit)) fail("a restarted node was still waiting at the time limit");
    if (is_undisturbed() && scenario_.slots > scenario_.blocks + scenario_.threads) {
      for (const auto& [block, loads] : loads_of_) {
        if (loads <= scenario_.groups) continue;
        fail("the file system was asked " + std::to_string(loads) + " times for block " + std::to_string(block));
      }
    }
  }

  void live(Rank node) {
    auto cache = std::make_unique<cache::Cache>(world_.team(node), options_, scenario_.rules);
    past_.push_back(std::exchange(caches_[node], std::move(cache)));
    reading_[node] = scenario_.threads;
    for (std::uint32_t thread = 0; thread < scenario_.threads; ++thread) {
      world_.on(node, [this, node] { read_blocks(node); });
    }
    if (scenario_.has_keepers) world_.on(node, [this, node] { renew_leases(node); });
    if (node == 0) schedule_faults();  // it lives only once
  }

  void read_blocks(Rank node) {
    const auto channel = world_.fabric(node).open_channel();
    for (std::uint32_t i = 0; i < scenario_.reads; ++i) {
      const std::uint64_t choice = scenario_.all_at_once ? i : world_.fabric(node).random();
      const std::uint64_t block = choice % scenario_.blocks;
      const bool gives_up = scenario_.impatient && node != 0 && world_.scheduler().one_in(2);
      const Duration timeout = gives_up ? world_.scheduler().up_to(kHaste) : any_timeout();
      const bool answered = read(node, *channel, block, timeout);
      // Node 0 is never stopped itself, so nothing excuses that it got no answer, but a stall that outlasts its
      // timeout.
      const bool may_be_late = has_long_stall_ && timeout < kLongTimeout;
      if (!answered && node == 0 && !may_be_late) fail("node 0 got no answer for block " + std::to_string(block));
    }
    --reading_[node];
  }

  /// Some are longer than the time after which a peer is left alone, and others are over before that.
  [[nodiscard]] Duration any_timeout() {
    return has_long_stalls() && world_.scheduler().one_in(2) ? kLongTimeout : kTimeout;
  }

  void renew_leases(Rank node) {
    Fabric& fabric = world_.fabric(node);
    const auto channel = fabric.open_channel();
    while (reading_[node] != 0) {
      caches_[node]->renew_leases(*channel, fabric.in(cache::time_limits::kRenewal));
      fabric.sleep(options_.loading_lease / 10);
    }
  }

  // False when there was no answer in time.
  bool read(Rank node, Channel& channel, std::uint64_t block, Duration timeout) {
    const cache::BlockKey key = key_of(block);
    Source source(*this, node);
    note(node, "wants block " + std::to_string(block));
    const cache::Acquired acquired = caches_[node]->acquire(channel, key, source, world_.fabric(node).in(timeout));
    if (acquired.answer != cache::Acquired::Answer::here) return false;
    note(node, "has block " + std::to_string(block) + " in slot " + std::to_string(acquired.slot));
    check(node, channel, key, acquired);
    return true;
  }

  // As a program of the host does: copy, then look at the token again.
  void check(Rank node, Channel& channel, const cache::BlockKey& key, const cache::Acquired& acquired) {
    const cache::Cache& cache = *caches_[node];
    const std::uint64_t slot = cache.layout().slots_offset + acquired.slot * cache::slot_stride(kBlockBytes);
    std::array<std::uint64_t, kBlockWords> words{};
    for (std::uint64_t at = 0; at < kBlockWords; ++at) {
      words[at] = cache.region().word<ControlWord>(slot + sizeof(cache::SlotHeader) + at * 8).load();
      world_.fabric(node).sleep(world_.scheduler().up_to(std::chrono::nanoseconds(200)));
    }
    channel.local_fence();
    if (cache.region().word<ControlWord>(slot + offsetof(cache::SlotHeader, token)).load() != acquired.token) return;
    for (std::uint64_t at = 0; at < kBlockWords; ++at) {
      if (words[at] == word_of(key, at)) continue;
      fail("node " + std::to_string(node) + " read word " + std::to_string(at) + " of block " +
           std::to_string(block_of(key)) + " wrong");
      return;
    }
  }

  void schedule_faults() {
    sim::Scheduler& scheduler = world_.scheduler();
    // Node 0 lives, to see that the others' deaths do no harm.
    const auto victim = [this, &scheduler] {
      return static_cast<Rank>(1 + scheduler.random() % (scenario_.nodes - 1));
    };
    const auto inject = [this, &scheduler](std::function<void()> what) {
      scheduler.after(scheduler.up_to(kLife), [this, what = std::move(what)] {
        if (!healed_) what();
      });
    };
    for (std::uint32_t i = 0; i < scenario_.deaths; ++i) {
      const Duration most = std::max(kLife, scenario_.restarts * kLife / 4);  // a restart takes time
      scheduler.after(scheduler.up_to(most), [this, node = victim()] { die(node); });
    }
    for (std::uint32_t i = 0; i < scenario_.pauses; ++i) {
      const Duration length = scheduler.up_to(scheduler.one_in(2) ? kLife : kLongPause);
      inject([this, node = victim(), length] {
        note(node, "is stopped");
        world_.pause(node, length);
      });
    }
    for (std::uint32_t i = 0; i < scenario_.stalls; ++i) {
      const auto from = static_cast<Rank>(scheduler.random() % scenario_.nodes);
      const auto to = static_cast<Rank>((from + victim()) % scenario_.nodes);
      const bool is_long = has_long_stalls() && scheduler.one_in(2);
      const Duration length = scheduler.up_to(is_long ? max_stall() : kShortStall);
      inject([this, from, to, length] {
        if (!world_.wires().passes(from, to)) return;  // the end of one stall would be the end of the other
        has_long_stall_ |= length > kShortStall;
        note(from, "does not get through to node " + std::to_string(to));
        world_.wires().stall(from, to, length);
      });
    }
  }

  void die(Rank node) {
    if (healed_ || !world_.alive(node)) return;
    note(node, "dies");
    world_.kill(node);
    if (restarts_left_ == 0) return;
    --restarts_left_;
    returning_.insert(node);
    const Duration most = std::chrono::microseconds(world_.scheduler().one_in(4) ? 2000 : 20);
    world_.scheduler().after(world_.scheduler().up_to(most), [this, node] { come_back(node); });
  }

  void come_back(Rank node) {
    if (returning_.erase(node) == 0) return;
    note(node, "comes back");
    world_.restart(node);
    world_.on(node, [this, node] { live(node); });
  }

  // ---- Afterwards ----

  void read_after_healing() {
    world_.heal();
    for (Rank node = 0; node < world_.size(); ++node) {
      if (!world_.alive(node)) continue;
      world_.on(node, [this, node] {
        const auto channel = world_.fabric(node).open_channel();
        for (std::uint64_t block = 0; block < scenario_.blocks; ++block) expect_block(node, *channel, block);
      });
    }
    if (!world_.run(kLimit)) fail("a node was still waiting long after all had healed");
  }

  void expect_block(Rank node, Channel& channel, std::uint64_t block) {
    if (read(node, channel, block, kLivenessBound)) return;
    fail("node " + std::to_string(node) + " got no answer for block " + std::to_string(block) +
         " after all had healed");
  }

  void look_at_directory() {
    const DirectoryCheck check(world_, caches_, options_);
    // A node avoids a peer to which its link broke, or stalled, for a while; then all are reachable again.
    if (scenario_.network.breaks_links || has_long_stall_) settle_for(2 * cache::time_limits::kMaxPeerPause);
    settle();
    for (const auto& stale : check.stale_cells(scenario_.blocks)) {
      if (is_undisturbed()) return fail(stale.text());
      if (!check.has_way_around(stale)) follow(check, stale);
      if (violation_) return;
    }
  }

  // A node that wants the block now must find out, and repair the cell.
  void follow(const DirectoryCheck& check, const DirectoryCheck::Stale& stale) {
    const std::vector<Rank> followers = check.followers(stale);
    if (followers.empty()) return;
    const Rank node = followers.front();
    world_.on(node, [this, node, block = stale.block] {
      const auto channel = world_.fabric(node).open_channel();
      expect_block(node, *channel, block);
    });
    if (!world_.run(kLimit)) fail("a node was still waiting long after all had healed");
    settle();
    for (const auto& still : check.stale_cells(scenario_.blocks)) {
      if (still.block == stale.block && still.group == stale.group && still.cell.word() == stale.cell.word()) {
        fail(still.text() + " even after node " + std::to_string(node) + " has followed it");
      }
    }
  }

  void settle() { settle_for(kLongPause); }
  void settle_for(Duration duration) {
    sim::Scheduler& scheduler = world_.scheduler();
    scheduler.after(duration, [] {});  // so that the time passes
    scheduler.settle(scheduler.now() + duration);
  }

  // ----

  // No node dies, is unresponsive, or cannot be reached.
  [[nodiscard]] bool is_undisturbed() const {
    return scenario_.deaths + scenario_.pauses + scenario_.stalls == 0 && !scenario_.network.breaks_links;
  }

  [[nodiscard]] Duration max_stall() const { return std::chrono::milliseconds(scenario_.max_stall_ms); }
  [[nodiscard]] bool has_long_stalls() const { return scenario_.stalls != 0 && max_stall() > kShortStall; }

  void note(Rank node, const std::string& what) {
    world_.scheduler().record(node, [&] { return "node " + std::to_string(node) + " " + what; });
  }
  void fail(const std::string& what) {
    if (violation_) return;
    violation_ = what;
    steps_to_violation_ = world_.scheduler().steps().size();
  }

  const CacheScenario scenario_;
  const cache::CacheOptions options_;
  sim::World world_;
  std::vector<std::unique_ptr<cache::Cache>> caches_;
  std::vector<std::uint32_t> reading_;  // by node: threads that are at work
  bool healed_ = false;
  bool has_long_stall_ = false;                      // there was one
  std::vector<std::unique_ptr<cache::Cache>> past_;  // to which frozen threads refer
  std::uint32_t restarts_left_;
  std::set<Rank> returning_;
  std::uint64_t loads_ = 0;
  std::map<std::uint64_t, std::uint64_t> loads_of_;  // by block
  std::optional<std::string> violation_;
  std::size_t steps_to_violation_ = 0;
};

}  // namespace

CacheResult run_cache_scenario(std::uint64_t seed, const CacheScenario& scenario, bool keep_steps,
                               sim::FaultCount* count) {
  return Run(seed, scenario, keep_steps, count).run();
}

}  // namespace farside::scenario
