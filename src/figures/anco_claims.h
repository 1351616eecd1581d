// anco_claims.h — what the paper's text says of each figure, held against the points.
#pragma once

#include "figures/figure.h"

namespace farside::figures {

// Each for the figure of that number.
[[nodiscard]] std::vector<Claim> claims_of_singlet_ratios(const Figure& figure);
[[nodiscard]] std::vector<Claim> claims_of_sequential_reads(const Figure& figure);
[[nodiscard]] std::vector<Claim> claims_of_random_reads(const Figure& figure, double pool_gib);
[[nodiscard]] std::vector<Claim> claims_of_strided_reads(const Figure& figure);
[[nodiscard]] std::vector<Claim> claims_of_scaling(const Figure& figure, double nic_bytes_per_s);
[[nodiscard]] std::vector<Claim> claims_of_grouping(const Figure& figure);

}  // namespace farside::figures
