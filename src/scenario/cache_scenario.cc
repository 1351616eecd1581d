#include "scenario/cache_scenario.h"

#include <array>
#include <cstring>
#include <map>
#include <span>

namespace farside::sim {

namespace {

constexpr std::uint64_t kBlock = 4096;
constexpr std::uint64_t kWords = 16;  // of a block that are looked at: enough to mix
constexpr Duration kLimit = std::chrono::minutes(10);
constexpr Duration kLease = std::chrono::milliseconds(5);
constexpr Duration kPatience = std::chrono::milliseconds(300);  // of a read: many leases, and the healing
constexpr Duration kLongPause = std::chrono::seconds(2);        // much longer than that
constexpr Duration kHealing = std::chrono::milliseconds(100);

BlockKey key_of(std::uint64_t number) {
  return {{.file_system = 1, .inode = number + 1, .bytes = kWords * 8, .modified_ns = 5, .changed_ns = 6}, 0};
}
std::uint64_t word_of(const BlockKey& key, std::uint64_t position) { return mix(block_id(key) + position); }

class Run {
 public:
  Run(std::uint64_t seed, const CacheScenario& scenario, bool keep_steps)
      : scenario_(scenario), world_(seed, scenario.nodes, scenario.network), caches_(scenario.nodes) {
    world_.scheduler().keep_steps(keep_steps);
  }

  CacheResult run() {
    for (Rank node = 0; node < scenario_.nodes; ++node) {
      world_.on(node, [this, node] { live(node); });
    }
    const bool finished = world_.run(kLimit);
    if (!finished) fail("somebody was still waiting when the time was over");
    if (is_quiet_crowd() && loads_ > std::uint64_t{scenario_.groups} * scenario_.blocks) {
      fail("the file system was asked " + std::to_string(loads_) + " times");
    }
    return {violation_, world_.scheduler().hash(), loads_, world_.scheduler().steps()};
  }

 private:
  // A file system that takes its time and fills a slot piece by piece.
  class Source final : public BlockSource {
   public:
    Source(Run& run, Fabric& fabric) : run_(run), fabric_(fabric) {}
    std::uint64_t load(const BlockKey& key, LocalSpan into) override {
      ++run_.loads_;
      for (std::uint64_t at = 0; at < kWords; ++at) {
        fabric_.sleep(run_.world_.scheduler().up_to(std::chrono::microseconds(20)));
        const std::uint64_t word = word_of(key, at);
        std::memcpy(into.adapter_data() + at * 8, &word, 8);
      }
      return kWords * 8;
    }

   private:
    Run& run_;
    Fabric& fabric_;
  };

  void live(Rank node) {
    CacheOptions options;
    options.cache_bytes = scenario_.slots * kBlock;
    options.block_bytes = kBlock;
    options.groups = scenario_.groups;
    options.loading_lease = kLease;
    caches_[node] = std::make_unique<Cache>(world_.team(node), options, scenario_.rules);
    for (std::uint32_t thread = 0; thread < scenario_.threads; ++thread) {
      world_.on(node, [this, node] { read_blocks(node); });
    }
    if (node == 0) schedule_faults();
  }

  void read_blocks(Rank node) {
    Fabric& fabric = world_.fabric(node);
    const auto channel = fabric.open_channel();
    Source source(*this, fabric);
    for (std::uint32_t i = 0; i < scenario_.reads; ++i) {
      const BlockKey key = key_of(fabric.random() % scenario_.blocks);
      const Acquired acquired = caches_[node]->acquire(*channel, key, source, fabric.in(kPatience));
      if (acquired.answer != Acquired::Answer::here) {
        // Node 0 is never stopped itself, so nothing excuses that it got no answer.
        if (node == 0) fail("node 0 got no answer for block " + std::to_string(key.file.inode));
        continue;
      }
      check(node, *channel, key, acquired);
    }
  }

  // As a program of the host does: copy, then look at the token again.
  void check(Rank node, Channel& channel, const BlockKey& key, const Acquired& acquired) {
    const Cache& cache = *caches_[node];
    const std::uint64_t slot = cache.layout().slots_offset + acquired.slot * slot_stride(kBlock);
    std::array<std::uint64_t, kWords> words{};
    for (std::uint64_t at = 0; at < kWords; ++at) {
      words[at] = cache.region().word<ControlWord>(slot + sizeof(SlotHeader) + at * 8).load();
      world_.fabric(node).sleep(world_.scheduler().up_to(std::chrono::nanoseconds(200)));
    }
    channel.local_fence();
    if (cache.region().word<ControlWord>(slot + offsetof(SlotHeader, token)).load() != acquired.token) return;
    for (std::uint64_t at = 0; at < kWords; ++at) {
      if (words[at] == word_of(key, at)) continue;
      fail("node " + std::to_string(node) + " read word " + std::to_string(at) + " of block " +
           std::to_string(key.file.inode) + " wrong");
      return;
    }
  }

  void schedule_faults() {
    Scheduler& scheduler = world_.scheduler();
    const Duration life = std::chrono::milliseconds(2);
    // Node 0 lives: somebody must be there to see that the others' deaths harm nobody.
    const auto victim = [this, &scheduler] {
      return static_cast<Rank>(1 + scheduler.random() % (scenario_.nodes - 1));
    };
    for (std::uint32_t i = 0; i < scenario_.deaths; ++i) {
      scheduler.after(scheduler.up_to(life), [this, who = victim()] { world_.kill(who); });
    }
    for (std::uint32_t i = 0; i < scenario_.pauses; ++i) {
      const Duration length = scheduler.up_to(scheduler.one_in(2) ? life : kLongPause);
      scheduler.after(scheduler.up_to(life), [this, who = victim(), length] { world_.pause(who, length); });
    }
    for (std::uint32_t i = 0; i < scenario_.cuts; ++i) {
      scheduler.after(scheduler.up_to(life), [this, who = victim()] { world_.wires().cut(who, 0); });
    }
    scheduler.after(kHealing, [this] { world_.wires().heal(); });
  }

  // Nothing is dropped, and nobody dies or is silent: each group loads each block once.
  [[nodiscard]] bool is_quiet_crowd() const {
    return scenario_.slots > scenario_.blocks + scenario_.threads &&
           scenario_.deaths + scenario_.pauses + scenario_.cuts == 0;
  }

  void fail(const std::string& what) {
    if (!violation_) violation_ = what;
  }

  const CacheScenario scenario_;
  World world_;
  std::vector<std::unique_ptr<Cache>> caches_;
  std::uint64_t loads_ = 0;
  std::optional<std::string> violation_;
};

}  // namespace

CacheScenario random_cache_scenario(std::uint64_t seed) {
  Scheduler dice(mix(seed));
  const auto coin = [&dice] { return dice.one_in(2); };
  CacheScenario scenario;
  scenario.nodes = static_cast<Rank>(2 + dice.random() % 3);
  scenario.threads = static_cast<std::uint32_t>(1 + dice.random() % 2);
  scenario.reads = coin() ? 12 : 40;
  scenario.blocks = static_cast<std::uint32_t>(2 + dice.random() % 8);
  scenario.slots = static_cast<std::uint32_t>(coin() ? 2 + dice.random() % 3 : 16);
  if (dice.one_in(4)) {  // a few slots that change hands all the time
    scenario.blocks = 3;
    scenario.slots = 2;
    scenario.reads = 60;
  }
  scenario.groups = static_cast<std::uint32_t>(1 + dice.random() % 2);
  scenario.deaths = coin() ? 1 : 0;
  scenario.pauses = coin() ? 2 : 0;
  scenario.cuts = coin() ? 1 : 0;
  scenario.network.grain_bytes = coin() ? 8 : 64;
  scenario.network.stores_twice = coin();
  scenario.network.reorders = coin();
  scenario.network.completes_before_visible = coin();
  scenario.network.buffers_stores = coin();
  scenario.network.splits_atomics = coin();
  scenario.network.lands_late = coin();
  scenario.network.stalls_before_posting = coin();
  scenario.network.needs_calls_for_progress = coin();
  scenario.network.clocks_drift = coin();
  scenario.network.dead_memory_answers = coin();
  return scenario;
}

CacheResult run_cache_scenario(std::uint64_t seed, const CacheScenario& scenario, bool keep_steps) {
  return Run(seed, scenario, keep_steps).run();
}

}  // namespace farside::sim
