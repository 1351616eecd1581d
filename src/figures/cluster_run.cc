#include "figures/cluster_run.h"

#include <algorithm>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "farside/base/error.h"

#include "sim/world.h"

namespace farside::figures {

namespace {

using team::Rank;

constexpr Duration kLimit = std::chrono::hours(24 * 365);
constexpr Duration kTimeout = std::chrono::hours(24);

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

// State that all nodes of a run share, and when they began and ended.
class Run {
 public:
  Run(std::uint64_t seed, const Cluster& cluster, const Workload& workload)
      : cluster_(cluster), workload_(workload), world_(seed, cluster.nodes, cluster.machine) {}

  virtual ~Run() = default;
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  Measured measure() {
    for (Rank rank = 0; rank < cluster_.nodes; ++rank) {
      world_.on(rank, [this, rank] { live(rank); });
    }
    if (!world_.run(kLimit)) throw Error({"run", "a simulated cluster", "it did not finish", "this is a defect"});
    collect();
    look_into_caches();
    return measured_;
  }

 protected:
  /// On a node: what comes before the clock starts.
  virtual void prepare(Rank /*rank*/) {}
  virtual void read(Rank rank, const Extent& extent) = 0;
  /// When all are through.
  virtual void look_into_caches() {}

  const Cluster& cluster_;
  const Workload& workload_;
  sim::World world_;
  Measured measured_;

 private:
  void live(Rank rank) {
    prepare(rank);
    Fabric& fabric = world_.fabric(rank);
    if (world_.team(rank).barrier(fabric.in(kTimeout)) != Outcome::done) return;
    begin_ = std::max(begin_, fabric.now());
    for (std::uint64_t step = 0; const auto extent = workload_.next(rank, step, fabric); ++step) {
      read(rank, *extent);
      measured_.bytes += static_cast<double>(extent->bytes);
    }
    end_ = std::max(end_, fabric.now());
  }

  void collect() {
    measured_.seconds = seconds(end_ - begin_);
    measured_.blocks_in_file = workload_.file_bytes / cluster_.cache.block_bytes;
    const sim::Timing& timing = *world_.wires().timing();
    for (Rank rank = 0; rank < cluster_.nodes; ++rank) {
      const sim::Served& served = timing.served_by(rank);
      measured_.operations += served.operations;
      measured_.busiest_bytes = std::max(measured_.busiest_bytes, served.bulk_bytes);
    }
    const sim::FileSystemSpeed& files = cluster_.machine.files;
    measured_.file_busy = static_cast<double>(timing.served_by_files().bulk_bytes) /
                          (files.server_bytes_per_s * files.servers * measured_.seconds);
  }

  Time begin_{};
  Time end_{};
};

class UncachedRun final : public Run {
 public:
  using Run::Run;

 private:
  void read(Rank rank, const Extent& extent) override { world_.read_file(rank, extent.offset, extent.bytes); }
};

class CachedRun final : public Run {
 public:
  CachedRun(std::uint64_t seed, const Cluster& cluster, const Workload& workload)
      : Run(seed, cluster, workload), nodes_(cluster.nodes) {}

 private:
  // When the node's program last read from each slot.
  class Board final : public cache::UseBoard {
   public:
    explicit Board(std::uint64_t slots) : used_(slots) {}
    [[nodiscard]] Time last_used(std::uint64_t slot) const override { return used_[slot]; }
    void stamp(std::uint64_t slot, Time now) { used_[slot] = now; }

   private:
    std::vector<Time> used_;
  };
  class Source final : public cache::BlockSource {
   public:
    Source(sim::World& world, Rank rank) : world_(world), rank_(rank) {}
    std::uint64_t load(const cache::BlockKey& key, LocalSpan into) override {
      ++loads;
      world_.read_file(rank_, key.index * into.bytes(), into.bytes());
      return into.bytes();
    }
    std::uint64_t loads = 0;

   private:
    sim::World& world_;
    Rank rank_;
  };
  struct Node {
    std::unique_ptr<cache::Cache> cache;
    std::unique_ptr<Board> board;
    std::unique_ptr<Channel> channel;
    std::unique_ptr<Source> source;
  };

  void prepare(Rank rank) override {
    Node& node = nodes_[rank];
    node.cache = std::make_unique<cache::Cache>(world_.team(rank), cluster_.cache, cluster_.rules);
    node.board = std::make_unique<Board>(node.cache->layout().slot_count);
    node.cache->set_board(*node.board);
    node.channel = world_.fabric(rank).open_channel();
    node.source = std::make_unique<Source>(world_, rank);
  }

  void read(Rank rank, const Extent& extent) override {
    const std::uint64_t block_bytes = cluster_.cache.block_bytes;
    for (std::uint64_t at = extent.offset; at < extent.offset + extent.bytes; at += block_bytes - at % block_bytes) {
      acquire(rank, at / block_bytes);
    }
    world_.fabric(rank).sleep(sim::time_for(extent.bytes, cluster_.machine.copy_bytes_per_s));
  }

  void acquire(Rank rank, std::uint64_t block) {
    Node& node = nodes_[rank];
    Fabric& fabric = world_.fabric(rank);
    const cache::FileIdentity file{
        .file_system = 1, .inode = 1, .bytes = workload_.file_bytes, .modified_ns = 1, .changed_ns = 1};
    const std::uint64_t loads = node.source->loads;
    const Time begin = fabric.now();
    const cache::Acquired acquired =
        node.cache->acquire(*node.channel, {file, block}, *node.source, fabric.in(kTimeout));
    if (acquired.answer != cache::Acquired::Answer::here) {
      throw Error({"acquire", "block " + std::to_string(block), "the cache has no answer", "this is a defect"});
    }
    node.board->stamp(acquired.slot, fabric.now());
    const double took = seconds(fabric.now() - begin);
    if (node.source->loads != loads) {
      ++measured_.loads;
      measured_.loading_seconds += took;
    } else if (took > 0) {
      ++measured_.copies;
      measured_.copying_seconds += took;
    } else {
      ++measured_.hits;
    }
  }

  void look_into_caches() override {
    std::unordered_set<cache::BlockId> ids;
    for (const Node& node : nodes_) {
      const cache::CacheLayout& layout = node.cache->layout();
      for (std::uint64_t slot = 0; slot < layout.slot_count; ++slot) {
        const std::uint64_t header = layout.slots_offset + slot * cache::slot_stride(layout.block_bytes);
        const cache::BlockId id = node.cache->region().word<ControlWord>(header).load();
        if (id == 0) continue;
        ids.insert(id);
        ++measured_.held;
      }
    }
    measured_.distinct = ids.size();
  }

  std::vector<Node> nodes_;
};

}  // namespace

Measured run_cached(std::uint64_t seed, const Cluster& cluster, const Workload& workload) {
  return CachedRun(seed, cluster, workload).measure();
}

Measured run_uncached(std::uint64_t seed, const Cluster& cluster, const Workload& workload) {
  return UncachedRun(seed, cluster, workload).measure();
}

}  // namespace farside::figures
