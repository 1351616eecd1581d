#include "figures/anco.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "farside/base/units.h"

#include "figures/anco_claims.h"

namespace farside::figures {

namespace {

using team::Rank;

constexpr std::uint64_t kKiB = 1U << 10U;
constexpr std::uint64_t kMiB = 1U << 20U;
constexpr std::uint64_t kGiB = 1U << 30U;
// The paper's, in all of its figures.
constexpr std::uint64_t kBlock = kMiB;
constexpr std::uint64_t kCache = 10 * kGiB;

// Measures the points of one figure.
class Sweep {
 public:
  Sweep(std::uint32_t number, const Conditions& conditions, const std::function<void(const Point&)>& progress)
      : conditions_(conditions), progress_(progress) {
    figure_.number = number;
  }

  Figure singlet_ratios();
  Figure sequential_reads();
  Figure random_reads();
  Figure strided_reads();
  Figure scaling();
  Figure grouping();

 private:
  [[nodiscard]] Cluster cluster(Rank nodes, std::uint32_t groups, std::uint64_t scale) const {
    return {.machine = conditions_.machine,
            .nodes = nodes,
            .cache = {.cache_bytes = kCache / scale, .block_bytes = kBlock, .groups = groups},
            .rules = {}};
  }
  void describe(std::string title, std::string x_label, const std::string& setup) {
    const sim::Machine& machine = conditions_.machine;
    figure_.title = std::move(title);
    figure_.x_label = std::move(x_label);
    figure_.setup = fmt::format("{} The machine is {}, with {:g} GB/s a node and {:g} us a round trip.", setup,
                                machine.name, machine.network.nic_bytes_per_s / 1e9,
                                std::chrono::duration<double, std::micro>(machine.network.round_trip).count());
  }
  void add(std::string curve, double x, const Measured& measured) {
    figure_.points.push_back({std::move(curve), x, measured});
    progress_(figure_.points.back());
  }
  void add_cached(std::string curve, double x, const Cluster& cluster, const Workload& workload) {
    add(std::move(curve), x, run_cached(conditions_.seed, cluster, workload));
  }
  void add_uncached(double x, const Cluster& cluster, const Workload& workload) {
    add("POSIX", x, run_uncached(conditions_.seed, cluster, workload));
  }
  Figure done(std::vector<Claim> claims) {
    figure_.claims = std::move(claims);
    return std::move(figure_);
  }

  const Conditions& conditions_;
  const std::function<void(const Point&)>& progress_;
  Figure figure_{};
};

std::string group_count(std::uint32_t groups) { return fmt::format("{} group{}", groups, groups == 1 ? "" : "s"); }

Figure Sweep::singlet_ratios() {
  const Rank nodes = 12;
  const auto scale = conditions_.either<std::uint64_t>(32, 512);
  const auto sizes =
      conditions_.either<std::vector<std::uint64_t>>({16, 32, 48, 64, 80, 96, 112, 128, 160, 192}, {48, 96, 192});
  describe("Random 1 MiB reads by 12 nodes, for several singlet ratios", "size of the file (GiB)",
           fmt::format("{} nodes with {} of cache each, 1 group. Each process makes as many reads as the file has "
                       "blocks, each at a place drawn anew, from empty caches on. Caches and files have 1/{} of the "
                       "paper's blocks.",
                       nodes, format_bytes(kCache), scale));
  for (const double ratio : {0.0, 0.3, 0.5, 0.6, 0.9}) {
    for (const std::uint64_t gib : sizes) {
      Cluster with_ratio = cluster(nodes, 1, scale);
      with_ratio.cache.singlet_ratio = ratio;
      add_cached(fmt::format("ratio {:.1f}", ratio), static_cast<double>(gib), with_ratio,
                 random(gib * kGiB / scale, kMiB));
    }
  }
  return done(claims_of_singlet_ratios(figure_));
}

Figure Sweep::sequential_reads() {
  const auto scale = conditions_.either<std::uint64_t>(4, 128);
  const auto node_counts = conditions_.either<std::vector<Rank>>({1, 2, 4, 8, 16, 32, 64, 128}, {8, 16, 64});
  const Workload workload = sequential(4 * kGiB / scale, 256 * kKiB);
  describe("All nodes read the same 4 GiB file from its start, 256 KiB a read", "nodes",
           fmt::format("{} of cache a node, empty at first. The file and the caches have 1/{} of the paper's blocks.",
                       format_bytes(kCache), scale));
  for (const Rank nodes : node_counts) {
    add_uncached(nodes, cluster(nodes, 1, scale), workload);
    for (const std::uint32_t groups : {1, 2, 4, 8}) {
      if (groups <= nodes) add_cached(group_count(groups), nodes, cluster(nodes, groups, scale), workload);
    }
  }
  return done(claims_of_sequential_reads(figure_));
}

Figure Sweep::random_reads() {
  const auto nodes = conditions_.either<Rank>(128, 16);
  const auto scale = conditions_.either<std::uint64_t>(128, 512);
  const auto sizes = conditions_.either<std::vector<std::uint64_t>>(
      {8, 16, 32, 64, 128, 256, 512, 768, 1024, 1280, 1536}, {8, 64, 160, 192});
  describe(
      fmt::format("Random 1 MiB reads by {} nodes", nodes), "size of the file (GiB)",
      fmt::format("{} nodes with {} of cache each ({} together), 1 group, singlet ratio 0.5. Each process makes as "
                  "many reads as the file has blocks, each at a place drawn anew, from empty caches on. Caches and "
                  "files have 1/{} of the paper's blocks.",
                  nodes, format_bytes(kCache), format_bytes(nodes * kCache), scale));
  for (const std::uint64_t gib : sizes) {
    const Workload workload = random(gib * kGiB / scale, kMiB);
    add_cached("1 group", static_cast<double>(gib), cluster(nodes, 1, scale), workload);
  }
  return done(claims_of_random_reads(figure_, static_cast<double>(nodes) * kCache / kGiB));
}

// Enough for a few turns of each rank.
constexpr std::uint64_t kStridedBytesPerNode = 64 * kMiB;
constexpr std::uint64_t kIorTransfer = 256 * kKiB;

Figure Sweep::strided_reads() {
  const auto node_counts = conditions_.either<std::vector<Rank>>({8, 16, 32, 64, 128}, {16, 64});
  const auto bytes_per_node = conditions_.either(kStridedBytesPerNode, 8 * kMiB);
  describe(
      "IOR's strided reads of one shared file", "nodes",
      fmt::format("IOR deals blocks of 16 KiB, 256 KiB or 4 MiB of one file to the ranks in turn; a read is a block, "
                  "or {} of it (IOR's default). The file has {} a node; caches are empty at first, and larger.",
                  format_bytes(kIorTransfer), format_bytes(bytes_per_node)));
  for (const std::uint64_t block : {16 * kKiB, 256 * kKiB, 4 * kMiB}) {
    for (const Rank nodes : node_counts) {
      const Workload workload = strided(nodes * bytes_per_node, block, kIorTransfer, nodes);
      add(format_bytes(block) + ", POSIX", nodes, run_uncached(conditions_.seed, cluster(nodes, 1, 8), workload));
      for (const std::uint32_t groups : {1, 4}) {
        add_cached(format_bytes(block) + ", " + group_count(groups), nodes, cluster(nodes, groups, 8), workload);
      }
    }
  }
  return done(claims_of_strided_reads(figure_));
}

Figure Sweep::scaling() {
  const auto scale = conditions_.either<std::uint64_t>(16, 256);
  const auto node_counts = conditions_.either<std::vector<Rank>>({16, 32, 64, 128, 256, 512, 1024}, {16, 64, 128});
  const Workload workload = sequential(4 * kGiB / scale, 256 * kKiB);
  describe("The reads of figure 2 on 16 to 1,024 nodes", "nodes",
           fmt::format("As in figure 2, before the same file system. The file and the caches have 1/{} of the paper's "
                       "blocks.",
                       scale));
  for (const Rank nodes : node_counts) {
    add_uncached(nodes, cluster(nodes, 1, scale), workload);
    for (const std::uint32_t groups : {1, 4, 16, 64}) {
      if (groups <= nodes) add_cached(group_count(groups), nodes, cluster(nodes, groups, scale), workload);
    }
  }
  return done(claims_of_scaling(figure_, conditions_.machine.network.nic_bytes_per_s));
}

Figure Sweep::grouping() {
  const auto nodes = conditions_.either<Rank>(128, 32);
  const auto bytes_per_node = conditions_.either(kStridedBytesPerNode, 8 * kMiB);
  describe(fmt::format("Neighbours in one group, or in different ones: IOR's strided reads on {} nodes", nodes),
           "size of IOR's block (KiB)",
           fmt::format("As in figure 4, with {} a node. The paper deals the ranks to the groups (rank mod 4).",
                       format_bytes(bytes_per_node)));
  for (const std::uint64_t kib : {16, 32, 64, 128, 256, 512, 1024, 4096}) {
    const Workload workload = strided(nodes * bytes_per_node, kib * kKiB, kIorTransfer, nodes);
    Cluster rows = cluster(nodes, 4, 8);
    rows.rules.deals_ranks_to_groups = false;
    add_cached("1 group", static_cast<double>(kib), cluster(nodes, 1, 8), workload);
    add_cached("4 groups, rank mod 4", static_cast<double>(kib), cluster(nodes, 4, 8), workload);
    add_cached("4 groups of neighbours", static_cast<double>(kib), rows, workload);
  }
  return done(claims_of_grouping(figure_));
}

}  // namespace

Figure anco_figure(std::uint32_t number, const Conditions& conditions,
                   const std::function<void(const Point&)>& progress) {
  Sweep sweep(number, conditions, progress);
  switch (number) {
    case 1: return sweep.singlet_ratios();
    case 2: return sweep.sequential_reads();
    case 3: return sweep.random_reads();
    case 4: return sweep.strided_reads();
    case 5: return sweep.scaling();
    case 6: return sweep.grouping();
    default: throw std::out_of_range("there is no figure " + std::to_string(number));
  }
}

}  // namespace farside::figures
