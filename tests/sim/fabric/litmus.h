// litmus.h — three processes, a few operations each, under many seeds: whether what a program is about ever happens.
#pragma once

#include <array>
#include <functional>
#include <memory>

#include "sim/world.h"

namespace farside::sim {

inline constexpr int kSeeds = 400;
inline constexpr team::Rank kWriter = 0;
inline constexpr team::Rank kReader = 1;
inline constexpr team::Rank kTarget = 2;

// A network that does nothing odd; a test turns on what it is about.
inline Network tame() {
  Network network;
  network.grain_bytes = 8;
  network.stores_twice = false;
  network.reorders = false;
  network.completes_before_visible = false;
  network.buffers_stores = false;
  network.splits_atomics = false;
  network.lands_late = false;
  network.stalls_before_posting = false;
  network.needs_calls_for_progress = false;
  network.clocks_drift = false;
  network.interleaves_accesses = false;
  network.replaces_links = false;
  network.flushes_replace_links = false;
  network.answers_late = false;
  network.clocks_stop = false;
  network.misses_plain_writes = false;
  network.revokes_slowly = false;
  network.freed_reads_blank = false;
  return network;
}

// Three processes with a region of 256 bytes each. What a program is about to find out, it says by `happened`.
class Litmus {
 public:
  explicit Litmus(std::uint64_t seed, const Network& network) : world(seed, 3, network) {}

  struct Side {
    Litmus& litmus;
    team::Rank rank;
    std::unique_ptr<team::SymmetricRegion> memory;
    std::unique_ptr<Channel> channel;

    [[nodiscard]] Deadline soon() const { return litmus.world.fabric(rank).in(std::chrono::seconds(1)); }
    void write(team::Rank at, std::uint64_t offset, std::uint64_t value) const {
      (void)channel->write(memory->of(at).span(offset, 8), LocalSpan(value), soon());
    }
    [[nodiscard]] std::uint64_t read(team::Rank at, std::uint64_t offset) const {
      return channel->load(memory->of(at).word<ControlWord>(offset), soon()).value;
    }
    void wait_for(team::Rank at, std::uint64_t offset, std::uint64_t value) const {
      for (int i = 0; i < 1000 && read(at, offset) != value; ++i) {
      }
    }
    [[nodiscard]] LocalWord<ControlWord> own(std::uint64_t offset) const {
      return memory->local().word<ControlWord>(offset);
    }
    void fence() const { (void)channel->fence(kTarget, soon()); }
    void flush(team::Rank at) const { (void)channel->flush(at, soon()); }
  };
  using Program = std::function<void(Side&)>;

  bool run(const std::array<Program, 3>& programs) {
    for (team::Rank rank = 0; rank < 3; ++rank) {
      world.on(rank, [this, rank, &programs] { live(rank, programs[rank]); });
    }
    (void)world.run(std::chrono::seconds(60));
    return happened;
  }
  // Within a program: the successor of a rank that was killed runs `program`.
  void come_back(team::Rank rank, Program program) {
    world.restart(rank);
    world.on(rank, [this, rank, program = std::move(program)] { live(rank, program); });
  }

  World world;
  bool happened = false;

 private:
  void live(team::Rank rank, const Program& program) {
    auto memory = world.team(rank).allocate("litmus", 256);
    Side side{*this, rank, std::move(memory), world.fabric(rank).open_channel()};
    if (program) program(side);
    // The region stays until all are through.
    (void)world.team(rank).barrier(world.fabric(rank).in(std::chrono::seconds(5)));
  }
};

// Whether the program's outcome comes about under any seed.
inline bool possible(const Network& network, const std::array<Litmus::Program, 3>& programs) {
  for (int seed = 1; seed <= kSeeds; ++seed) {
    Litmus litmus(static_cast<std::uint64_t>(seed), network);
    if (litmus.run(programs)) return true;
  }
  return false;
}

using Side = Litmus::Side;

}  // namespace farside::sim
