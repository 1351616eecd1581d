// nicam.h — figures 6, 7 and 9 of Matsuda et al.: "Network interface active messages for low overhead communication on
// SMP PC clusters" (NICAM): barriers, overlap, and a shift without barriers, measured on modelled machines.
#pragma once

#include <array>
#include <cstdint>

#include "figures/conditions.h"
#include "figures/report.h"

namespace farside::figures {

inline constexpr std::array<std::uint32_t, 3> kNicamFigures = {6, 7, 9};

/// Throws std::out_of_range for other numbers.
[[nodiscard]] Chart nicam_figure(std::uint32_t number, const Conditions& conditions);

}  // namespace farside::figures
