// anco.h — the four figures of Arai, Ishikawa, Hori: "Lightweight cooperative caching for clusters with RDMA", section
// 3, and two that they have not, measured on modelled machines with the cache as it is.
//
// The number of blocks is scaled down, of caches and files alike; a block keeps its size, so that each transfer takes
// as long as on the machine. What the paper leaves out (how much each process reads, the speed of the file system) is
// chosen here and stated in Figure::setup.
#pragma once

#include <cstdint>
#include <functional>

#include "figures/conditions.h"
#include "figures/figure.h"

namespace farside::figures {

inline constexpr std::uint32_t kAncoFigures = 6;

/// Figure `number`, from 1 to kAncoFigures. `progress` is told of each point as it is measured.
[[nodiscard]] Figure anco_figure(std::uint32_t number, const Conditions& conditions,
                                 const std::function<void(const Point&)>& progress);

}  // namespace farside::figures
