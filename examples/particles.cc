// particles.cc — a cloud of charged particles drifts through a square that has no edges: particles in cells.
//
//   farside run -n 4 -- build/release/bin/example_particles [PLOT.svg]
//
// The square is cut into tiles. Of each tile, a page of global arrays has the potential of its cells and another one
// the particles. A step of a tile reads the potential around it, and the particles of the tiles around it, wherever
// they are. Work is dealt out by particles, anew every few steps; tiles are numbered along a curve, so that what
// follows each other is near. All of it is done twice: tiles stay where they were in the beginning; or each is owned by
// its worker.
#include "particles.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <span>
#include <utility>
#include <vector>

#include "farside/comm/barrier.h"
#include "farside/gas/global_array.h"

#include "plot/plot.h"

namespace {

using namespace farside;
using namespace particles;

constexpr std::uint64_t kRoom = 256;  // particles of a tile
constexpr int kInterval = 10;         // steps between two deals of work
constexpr int kIntervals = kSteps / kInterval;

using Counts = std::vector<std::uint64_t>;  // of the particles of each tile
using Workers = std::vector<team::Rank>;    // of each tile; they ascend

std::uint64_t load_of(std::uint64_t particles) { return particles + 10; }  // its cells take time, too

Workers deal_out(const Counts& counts, team::Rank ranks) {
  std::uint64_t all = 0;
  for (const std::uint64_t count : counts) all += load_of(count);
  Workers workers;
  std::uint64_t before = 0;
  for (const std::uint64_t count : counts) {
    workers.push_back(static_cast<team::Rank>((before + load_of(count) / 2) * ranks / all));
    before += load_of(count);
  }
  return workers;
}
// In % of what it would be if all ranks had as much to do.
double busiest(const Counts& counts, const Workers& workers, team::Rank ranks) {
  std::vector<double> loads(ranks);
  double all = 0;
  for (std::uint64_t tile = 0; tile < kTiles; ++tile) {
    loads[workers[tile]] += static_cast<double>(load_of(counts[tile]));
    all += static_cast<double>(load_of(counts[tile]));
  }
  return 100 * std::ranges::max(loads) * ranks / all;
}

// What a step starts from, or what it leads to.
struct State {
  State(comm::Comm& comm, const Workers& first)
      : potential(comm, kTiles * kTileCells, pages_of(kTileCells * sizeof(double), first)),
        particles(comm, kTiles * kRoom, pages_of(kRoom * sizeof(Particle), first)),
        counts(comm, kTiles) {}

  // Each page is a tile. There is room for all of them at each rank, wherever the cloud goes.
  static gas::GlobalArrayOptions pages_of(std::uint64_t bytes, const Workers& first) {
    return {.page_bytes = bytes,
            .distribution = [first](gas::PageId tile, auto, auto) { return first[tile]; },
            .slots = kTiles};
  }
  std::array<gas::PageAccess*, 3> pages() { return {&potential.pages(), &particles.pages(), &counts.pages()}; }

  gas::GlobalArray<double> potential;
  gas::GlobalArray<Particle> particles;  // kRoom for each tile
  gas::GlobalArray<std::uint64_t> counts;
};

const auto expect = gas::GlobalArray<double>::expect;  // throws Error unless it is done

// The only one to write to the tile's pages in `next`, and to none in `now`.
void advance(std::uint64_t tile, const Counts& counts, State& now, State& next) {
  constexpr int kWidth = kTileSide + 2;
  const auto [left, top] = corner_of(tile);
  std::array<double, kWidth * kWidth> potential;  // with the cells around
  for (int row = 0; row < kWidth; ++row) {
    for (const auto& [column, count] : {std::pair(0, 1), std::pair(1, kTileSide), std::pair(kTileSide + 1, 1)}) {
      now.potential.begin_get(cell_at(around(left + column - 1), around(top + row - 1)),
                              std::span(potential).subspan(row * kWidth + column, count));
    }
  }
  expect(now.potential.finish(), "get the potential");

  std::vector<std::uint64_t> tiles_near;
  std::uint64_t count = 0;
  for (const int down : {-1, 0, 1}) {
    for (const int right : {-1, 0, 1}) {
      tiles_near.push_back(tile_at(around(left + right * kTileSide), around(top + down * kTileSide)));
      count += counts[tiles_near.back()];
    }
  }
  std::vector<Particle> near(count);
  std::span<Particle> rest(near);
  for (const std::uint64_t from : tiles_near) {
    now.particles.begin_get(from * kRoom, rest.first(counts[from]));
    rest = rest.subspan(counts[from]);
  }
  expect(now.particles.finish(), "get particles");

  const auto neighbours = [&potential](int at) {
    return Neighbours{potential[at - 1], potential[at + 1], potential[at - kWidth], potential[at + kWidth]};
  };
  std::array<int, kWidth * kWidth> charges{};
  std::vector<Particle> here;
  for (const Particle& particle : near) {
    const auto [x, y] = cell_of(particle);
    if (tile_at(x, y) != tile) continue;
    const int at = (y - top + 1) * kWidth + x - left + 1;
    ++charges[at];
    here.push_back(pushed(particle, neighbours(at)));
  }
  if (here.size() > kRoom) throw Error({"go on", "a tile", "it is full of particles", "make kRoom larger"});
  std::array<double, kTileCells> cells;
  for (int y = 0; y < kTileSide; ++y) {
    for (int x = 0; x < kTileSide; ++x) {
      const int at = (y + 1) * kWidth + x + 1;
      cells[y * kTileSide + x] = relaxed(potential[at], neighbours(at), charges[at]);
    }
  }
  const std::uint64_t particles = here.size();
  expect(next.potential.put(tile * kTileCells, cells), "put the potential");
  expect(next.particles.put(tile * kRoom, here), "put particles");
  expect(next.counts.put(tile, std::span(&particles, 1)), "put a count");
}

// Of all ranks, in an interval.
struct Interval {
  std::uint64_t bytes, remote_bytes, remote_operations, moved_bytes;

  friend Interval operator+(const Interval& a, const Interval& b) {
    return {a.bytes + b.bytes, a.remote_bytes + b.remote_bytes, a.remote_operations + b.remote_operations,
            a.moved_bytes + b.moved_bytes};
  }
};
struct Run {
  End end;
  std::array<Interval, kIntervals> intervals{};
  std::array<double, kIntervals> busiest{};           // as work is dealt out
  std::array<double, kIntervals> busiest_at_first{};  // as it was dealt out in the beginning
  std::chrono::duration<double, std::milli> took{};
};

void count_traffic(State& state, Interval& interval) {
  for (gas::PageAccess* const pages : state.pages()) {
    for (const gas::PageTraffic& page : pages->traffic()) {
      interval = interval + Interval{page.bytes, page.remote_bytes, page.remote_operations, 0};
    }
    pages->clear_traffic();
  }
}

gas::Range tiles_of(const Workers& workers, team::Rank rank) {
  // clang-tidy 14 trips over ranges::equal_range
  const auto range = std::equal_range(workers.begin(), workers.end(), rank);
  return {static_cast<std::uint64_t>(range.first - workers.begin()),
          static_cast<std::uint64_t>(range.second - range.first)};
}

// Brings tiles to this rank. How many bytes that took.
std::uint64_t own(State& state, gas::Range tiles) {
  const gas::Moved cells = state.potential.own(tiles.first * kTileCells, tiles.count * kTileCells);
  const gas::Moved particles = state.particles.own(tiles.first * kRoom, tiles.count * kRoom);
  expect(cells.status, "own cells");
  expect(particles.status, "own particles");
  return cells.pages * kTileCells * sizeof(double) + particles.pages * kRoom * sizeof(Particle);
}

End all_of(State& state) {
  End end{std::vector<double>(kTiles * kTileCells), {}};
  Counts counts(kTiles);
  expect(state.potential.get(0, end.potential), "get all of the potential");
  expect(state.counts.get(0, counts), "get counts");
  for (std::uint64_t tile = 0; tile < kTiles; ++tile) {
    std::vector<Particle> particles(counts[tile]);
    expect(state.particles.get(tile * kRoom, particles), "get all particles");
    end.particles.insert(end.particles.end(), particles.begin(), particles.end());
  }
  std::ranges::sort(end.particles);
  return end;
}

enum class Tiles { stay, follow };

Run run_together(team::Team& team, Tiles tiles) {
  std::vector<std::vector<Particle>> by_tile(kTiles);
  for (const Particle& particle : cloud()) {
    const auto [x, y] = cell_of(particle);
    by_tile[tile_at(x, y)].push_back(particle);
  }
  Counts counts;
  for (const auto& particles : by_tile) counts.push_back(particles.size());
  const Workers first = deal_out(counts, team.size());

  const auto deadline = [&team] { return team.fabric().in(std::chrono::seconds(60)); };
  comm::Comm comm(team);
  comm::Barrier barrier(comm);
  comm::Collectives together(comm);
  State now(comm, first);
  State next(comm, first);
  Channel& channel = now.potential.pages().channel();
  gas::Range mine = tiles_of(first, team.rank());
  for (std::uint64_t tile = mine.first; tile < mine.first + mine.count; ++tile) {
    expect(now.particles.put(tile * kRoom, by_tile[tile]), "put the cloud");
    expect(now.counts.put(tile, std::span(&counts[tile], 1)), "put a count");
  }
  expect(barrier.pass(channel, deadline()), "begin");

  Run run;
  Workers workers;
  const auto begun = std::chrono::steady_clock::now();
  for (int step = 0; step < kSteps; ++step) {
    Interval& interval = run.intervals[step / kInterval];
    expect(now.counts.get(0, counts), "get counts");
    if (step % kInterval == 0) {
      workers = deal_out(counts, team.size());  // the same at all ranks
      mine = tiles_of(workers, team.rank());
      if (tiles == Tiles::follow) interval.moved_bytes += own(now, mine) + own(next, mine);
    }
    for (std::uint64_t tile = mine.first; tile < mine.first + mine.count; ++tile) advance(tile, counts, now, next);
    expect(barrier.pass(channel, deadline()), "meet");
    std::swap(now, next);
    if (step % kInterval == kInterval - 1) {
      run.busiest[step / kInterval] = busiest(counts, workers, team.size());
      run.busiest_at_first[step / kInterval] = busiest(counts, first, team.size());
      for (State* const state : {&now, &next}) count_traffic(*state, interval);
    }
  }
  run.took = std::chrono::steady_clock::now() - begun;

  run.end = all_of(now);
  expect(together.all_reduce(channel, std::span<Interval>(run.intervals), deadline()), "add up the traffic");
  expect(comm.wait(channel, comm.issued(), deadline()), "end");
  expect(barrier.pass(channel, deadline()), "end");  // no rank frees what another rank may be using
  return run;
}

void show(const char* tiles, const Run& run) {
  Interval all{};
  for (const Interval& interval : run.intervals) all = all + interval;
  std::printf("%s: %llu remote operations, %.1f MB; %.1f MB moved; %.0f ms\n", tiles,
              static_cast<unsigned long long>(all.remote_operations), static_cast<double>(all.remote_bytes) / 1e6,
              static_cast<double>(all.moved_bytes) / 1e6, run.took.count());
}

void plot(const Run& stay, const Run& follow, const std::string& svg) {
  Plot plot{.title = "A cloud that drifts",
            .x = {.label = "steps", .logarithmic = false},
            .y = {.label = "%", .logarithmic = false},
            .curves = {}};
  const auto curve = [&plot](const char* name, const auto& of_interval) {
    Curve& added = plot.curves.emplace_back(Curve{name, {}});
    for (int i = 0; i < kIntervals; ++i) added.points.emplace_back((i + 1) * kInterval, of_interval(i));
  };
  const auto remote_share = [](const Interval& interval) {
    return 100.0 * static_cast<double>(interval.remote_bytes + interval.moved_bytes) /
           static_cast<double>(interval.bytes + interval.moved_bytes);
  };
  curve("remote bytes, of all: tiles stay", [&](int i) { return remote_share(stay.intervals[i]); });
  curve("remote bytes, of all: tiles follow the work", [&](int i) { return remote_share(follow.intervals[i]); });
  curve("largest load, of the mean: work dealt out anew", [&](int i) { return follow.busiest[i]; });
  curve("largest load, of the mean: as dealt out first", [&](int i) { return follow.busiest_at_first[i]; });
  draw(plot, svg);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc > 2) throw UsageError({"start with", "the arguments", "they are not one file for the plot", "name one"});
    const auto team = team::join_team();
    const Run stay = run_together(*team, Tiles::stay);
    const Run follow = run_together(*team, Tiles::follow);
    if (team->rank() != 0) return EXIT_SUCCESS;

    const bool is_right = stay.end == follow.end && follow.end == run_alone();
    std::printf("%u ranks, %d particles, %d steps: bitwise equal to the single-process run: %s\n", team->size(),
                kParticles, kSteps, is_right ? "yes" : "no");
    show("tiles stay", stay);
    show("tiles follow the work", follow);
    if (argc == 2) plot(stay, follow, argv[1]);
    return is_right ? EXIT_SUCCESS : EXIT_FAILURE;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
}
