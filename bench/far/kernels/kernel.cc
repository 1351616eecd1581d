#include "bench/far/kernels/kernel.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

namespace farside::bench {

namespace {

constexpr std::uint64_t kMiB = 1 << 20;

constexpr std::array<KernelKind, 10> kKinds{{
    {"qsort", "150 million 4-byte integers, quicksort in place", {600'000'000, 1}, make_quicksort},
    {"himeno", "Jacobi's method with a stencil of 19 points", {591 * kMiB, 10}, make_himeno},
    {"bt", "implicit flow: block-tridiagonal systems along three directions", {707 * kMiB, 1}, make_bt},
    {"lu", "implicit flow: SSOR, plane after plane", {592 * kMiB, 1}, make_lu},
    {"lu-hp", "the same along hyperplanes, which jumps from page to page", {628 * kMiB, 1}, make_lu_hp},
    {"mg", "multigrid, V-cycles", {443 * kMiB, 4}, make_mg},
    {"sp", "implicit flow: pentadiagonal systems along three directions", {740 * kMiB, 2}, make_sp},
    {"ua", "heat on an unstructured mesh of spectral elements", {478 * kMiB, 4}, make_ua},
    {"writemem", "write 4 bytes of each 64", {700 * kMiB, 1}, make_write_lines},
    {"reread", "read 4 bytes of each 64, which were written before", {700 * kMiB, 1}, make_reread_lines},
}};

}  // namespace

std::span<const KernelKind> kernel_kinds() { return kKinds; }

const KernelKind& kernel_kind(std::string_view name) {
  const auto* const found = std::ranges::find(kKinds, name, &KernelKind::name);
  if (found == kKinds.end()) throw std::invalid_argument("there is no kernel \"" + std::string(name) + "\"");
  return *found;
}

}  // namespace farside::bench
