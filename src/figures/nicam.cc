#include "figures/nicam.h"

#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "figures/nicam_runs.h"

namespace farside::figures {

namespace {

// A figure that is being measured.
class Sheet {
 public:
  Sheet(std::uint32_t number, const Conditions& conditions, Plot plot, std::string unit, const std::string& setup)
      : chart_{number, setup + machine(conditions.machine), std::move(unit), std::move(plot), {}} {}

  void add(const std::string& curve, double x, double y) {
    if (chart_.plot.curves.empty() || chart_.plot.curves.back().name != curve)
      chart_.plot.curves.push_back({curve, {}});
    chart_.plot.curves.back().points.emplace_back(x, y);
  }
  /// The first value, or the last, of the curve that was added as number `curve`.
  [[nodiscard]] double first_of(std::size_t curve) const { return chart_.plot.curves[curve].points.front().second; }
  [[nodiscard]] double last_of(std::size_t curve) const { return chart_.plot.curves[curve].points.back().second; }
  void claim(std::string says, bool agrees, std::string measured, std::string why = "") {
    chart_.claims.push_back({std::move(says), agrees, std::move(measured), std::move(why)});
  }
  Chart done() { return std::move(chart_); }

 private:
  static std::string machine(const sim::Machine& machine) {
    const auto microseconds = [](Duration duration) {
      return std::chrono::duration<double, std::micro>(duration).count();
    };
    return fmt::format(" The machine is {}, with {:g} GB/s a node, {:g} us a round trip and {:g} us a call.",
                       machine.name, machine.network.nic_bytes_per_s / 1e9, microseconds(machine.network.round_trip),
                       microseconds(machine.network.overhead));
  }

  Chart chart_;
};

Chart barriers(const Conditions& conditions) {
  Sheet sheet(
      6, conditions, {"A barrier between nodes", {"nodes"}, {"time (us)"}, {}}, "us",
      "Meetings of comm, which climb a tree of counters with eight children a node, and a barrier that the programs "
      "make of signals, in as many steps as their number can be halved.");
  const auto most = conditions.either<team::Rank>(256, 16);
  for (const auto& [name, kind] :
       {std::pair{"meeting", Barriers::Kind::meeting}, {"signals", Barriers::Kind::messages}}) {
    for (team::Rank ranks = 2; ranks <= most; ranks *= 2) {
      sheet.add(name, ranks, 1e6 * seconds_per_round(conditions, Barriers{ranks, kind}));
    }
  }
  const auto per_doubling = [&](std::size_t curve) {
    return (sheet.last_of(curve) - sheet.first_of(curve)) / (std::log2(most) - 1);
  };
  const double meeting = per_doubling(0);
  const double signals = per_doubling(1);
  sheet.claim("A doubling costs less than one of a barrier made of messages.", meeting < signals,
              fmt::format("{:.2f} us against {:.2f} us", meeting, signals),
              "The last member tells all members itself, so that a barrier ends without a call by any other; each of "
              "them costs it a call.");
  return sheet.done();
}

Chart laplace(const Conditions& conditions) {
  using std::chrono::nanoseconds;
  constexpr Duration kCell = nanoseconds(40);
  constexpr std::uint64_t kSize = 1024;
  Sheet sheet(
      7, conditions, {"Laplace's equation, with overlap and without", {"nodes"}, {"speed-up over one thread"}, {}},
      "speed-up",
      fmt::format("Jacobi's method on {0} x {0} cells in bands of rows. A thread takes {1} ns for a cell, several "
                  "threads of a node share its cells evenly.",
                  kSize, kCell.count()));
  const double alone = std::chrono::duration<double>(kSize * kSize * kCell).count();
  const auto most = conditions.either<team::Rank>(64, 8);
  std::vector<double> gains;  // at eight nodes, by threads
  for (const int threads : {1, 2, 4}) {
    const auto speed_up = [&](team::Rank ranks, bool overlaps) {
      return alone / seconds_per_round(conditions, Laplace{ranks, kSize, kCell / threads, overlaps});
    };
    for (const bool overlaps : {false, true}) {
      const std::string name =
          fmt::format("{} thread{}{}", threads, threads > 1 ? "s" : "", overlaps ? ", overlap" : "");
      for (team::Rank ranks = 2; ranks <= most; ranks *= 2) sheet.add(name, ranks, speed_up(ranks, overlaps));
    }
    gains.push_back(100 * (speed_up(8, true) / speed_up(8, false) - 1));
  }
  const std::string measured = fmt::format("gain at 8 nodes with 1, 2 and 4 threads: {:.1f} %, {:.1f} %, {:.1f} %",
                                           gains[0], gains[1], gains[2]);
  sheet.claim("The gain of overlap grows with the threads.", gains[0] < gains[1] && gains[1] < gains[2], measured);
  sheet.claim(
      "It is about 10 % on 8 nodes of 4 threads.", gains[2] > 5 && gains[2] < 20, measured,
      "The paper's threads slow each other down on the memory bus, which is not modelled; so here they have less to "
      "do while rows are under way.");
  return sheet.done();
}

Chart shifts(const Conditions& conditions) {
  constexpr team::Rank kRanks = 8;
  Sheet sheet(
      9, conditions, {"cshift by one, with a barrier before it and without", {"N"}, {"time (us)"}, {}}, "us",
      fmt::format("Arrays of N x N on {} nodes, in bands of rows. Without, the barrier is begun when the result is "
                  "dropped, and ends in the background; memory is held back until then.",
                  kRanks));
  const std::vector<std::uint64_t> sizes = {16, 32, 64, 128, 256, 512};
  for (const bool relaxed : {false, true}) {
    for (const std::uint64_t size : sizes) {
      sheet.add(relaxed ? "relaxed" : "bulk-synchronous", static_cast<double>(size),
                1e6 * seconds_per_round(conditions, Shift{kRanks, size, relaxed}));
    }
  }
  const double barrier = 1e6 * seconds_per_round(conditions, Barriers{kRanks, Barriers::Kind::meeting});
  const double gain = sheet.last_of(0) - sheet.last_of(1);
  sheet.claim("The barrier's cost is gained.", gain >= 0.95 * barrier,
              fmt::format("{:.1f} us at N = {}; a barrier alone takes {:.1f} us", gain, sizes.back(), barrier));
  return sheet.done();
}

}  // namespace

Chart nicam_figure(std::uint32_t number, const Conditions& conditions) {
  switch (number) {
    case 6: return barriers(conditions);
    case 7: return laplace(conditions);
    case 9: return shifts(conditions);
    default: throw std::out_of_range("there is no figure " + std::to_string(number));
  }
}

}  // namespace farside::figures
