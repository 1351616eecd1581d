// particles.h — the square, its particles, and what one process alone makes of them (for particles.cc).
#pragma once

#include <algorithm>
#include <cmath>
#include <compare>
#include <cstdint>
#include <utility>
#include <vector>

namespace particles {

constexpr int kTileSide = 8;  // cells
constexpr int kSide = 128;    // cells: 16 x 16 tiles
constexpr std::uint64_t kTileCells = kTileSide * kTileSide;
constexpr std::uint64_t kTiles = kSide * kSide / kTileCells;
constexpr int kParticles = 6000;
constexpr int kSteps = 200;

struct Particle {
  double x, y, vx, vy;
  auto operator<=>(const Particle&) const = default;
};

inline int around(int coordinate) { return (coordinate + kSide) % kSide; }

// The bits of two coordinates by turns: a curve in the shape of Zs.
inline std::uint64_t tile_at(int x, int y) {
  std::uint64_t tile = 0;
  for (int bit = 0; bit < 8; ++bit) {
    tile |=
        static_cast<std::uint64_t>((x / kTileSide >> bit & 1) << 2 * bit | (y / kTileSide >> bit & 1) << (2 * bit + 1));
  }
  return tile;
}
// Its first cell, in the order of cells.
inline std::pair<int, int> corner_of(std::uint64_t tile) {
  std::pair<int, int> corner;
  for (int bit = 0; bit < 8; ++bit) {
    corner.first |= kTileSide * static_cast<int>(tile >> 2 * bit & 1) << bit;
    corner.second |= kTileSide * static_cast<int>(tile >> (2 * bit + 1) & 1) << bit;
  }
  return corner;
}
// Tile by tile.
inline std::uint64_t cell_at(int x, int y) {
  return tile_at(x, y) * kTileCells + static_cast<std::uint64_t>(y % kTileSide * kTileSide + x % kTileSide);
}
inline std::pair<int, int> cell_of(const Particle& p) {
  return {static_cast<int>(p.x) % kSide, static_cast<int>(p.y) % kSide};
}

struct Neighbours {
  double left, right, above, below;
};
inline double relaxed(double here, const Neighbours& next, int charges) {
  return here + 0.2 * (next.left + next.right + next.above + next.below - 4 * here) - 0.05 * here + 0.01 * charges;
}
inline Particle pushed(Particle p, const Neighbours& potential) {
  const auto faster = [](double v, double push) { return std::clamp(v + 0.01 * push, -4.0, 4.0); };
  const auto wrapped = [](double at) { return at - kSide * std::floor(at / kSide); };
  p.vx = faster(p.vx, potential.left - potential.right);
  p.vy = faster(p.vy, potential.above - potential.below);
  return {wrapped(p.x + p.vx), wrapped(p.y + p.vy), p.vx, p.vy};
}

// Spread like the seeds of a sunflower.
inline std::vector<Particle> cloud() {
  std::vector<Particle> particles;
  for (int i = 0; i < kParticles; ++i) {
    const double radius = 30 * std::sqrt((i + 0.5) / kParticles);
    particles.push_back({40 + radius * std::cos(2.4 * i), 50 + radius * std::sin(2.4 * i), 0.8, 0.5});
  }
  return particles;
}

struct End {
  std::vector<double> potential;
  std::vector<Particle> particles;  // sorted
  bool operator==(const End&) const = default;
};

inline End run_alone() {
  End now{std::vector<double>(kTiles * kTileCells), cloud()};
  for (int step = 0; step < kSteps; ++step) {
    const auto neighbours = [&now](int x, int y) {
      const auto at = [&now](int cell_x, int cell_y) { return now.potential[cell_at(around(cell_x), around(cell_y))]; };
      return Neighbours{at(x - 1, y), at(x + 1, y), at(x, y - 1), at(x, y + 1)};
    };
    std::vector<int> charges(kTiles * kTileCells);
    for (Particle& particle : now.particles) {
      const auto [x, y] = cell_of(particle);
      ++charges[cell_at(x, y)];
      particle = pushed(particle, neighbours(x, y));
    }
    std::vector<double> next(kTiles * kTileCells);
    for (int y = 0; y < kSide; ++y) {
      for (int x = 0; x < kSide; ++x) {
        const std::uint64_t at = cell_at(x, y);
        next[at] = relaxed(now.potential[at], neighbours(x, y), charges[at]);
      }
    }
    now.potential.swap(next);
  }
  std::ranges::sort(now.particles);
  return now;
}

}  // namespace particles
