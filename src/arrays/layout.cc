#include "farside/arrays/layout.h"

#include <algorithm>

#include "farside/base/error.h"

namespace farside::arrays {

namespace {

std::string product(const Index& factors) {
  std::string text = std::to_string(factors[0]);
  for (std::size_t axis = 1; axis < kAxes; ++axis) text += "x" + std::to_string(factors[axis]);
  return text;
}

/// The limit of an array, ghost cells included, and of an axis: so that bytes and places can be counted in 64 bits.
constexpr std::int64_t kMaxElements = std::int64_t{1} << 47U;

bool can_be_counted(const Index& extents, const Index& halo) {
  std::int64_t elements = 1;
  bool any = true;
  for (std::size_t axis = 0; axis < kAxes; ++axis) {
    if (extents[axis] < 0 || halo[axis] < 0 || extents[axis] > kMaxElements || halo[axis] > kMaxElements) return false;
    const std::int64_t all = extents[axis] + 2 * halo[axis];
    any = any && all != 0;
    if (all != 0 && elements > kMaxElements / all) elements = kMaxElements + 1;
    if (all != 0 && elements <= kMaxElements) elements *= all;
  }
  return !any || elements <= kMaxElements;
}

/// There are as many as ranks.
bool are_as_many(const Index& parts, std::uint32_t ranks) {
  std::int64_t all = 1;
  for (const std::int64_t count : parts) {
    if (count <= 0 || count > ranks) return false;
    all *= count;  // of at most 32 bits each time
    if (all > ranks) return false;
  }
  return all == ranks;
}

/// The index at which part `part` of `parts` begins.
std::int64_t begin_of(std::int64_t part, std::int64_t parts, std::int64_t extent) { return extent * part / parts; }

}  // namespace

Index sum(const Index& a, const Index& b) { return {a[0] + b[0], a[1] + b[1], a[2] + b[2]}; }

Index difference(const Index& a, const Index& b) { return {a[0] - b[0], a[1] - b[1], a[2] - b[2]}; }

Box Box::grown(const Index& by) const { return {difference(first, by), sum(last, by)}; }

Box Box::moved(const Index& by) const { return {sum(first, by), sum(last, by)}; }

Box common_part(const Box& a, const Box& b) {
  Box common;
  for (std::size_t axis = 0; axis < kAxes; ++axis) {
    common.first[axis] = std::max(a.first[axis], b.first[axis]);
    common.last[axis] = std::max(common.first[axis], std::min(a.last[axis], b.last[axis]));
  }
  return common;
}

std::vector<std::uint32_t> even_parts(std::uint32_t ranks, std::size_t dimensions) {
  std::vector<std::uint32_t> parts(dimensions, 1);
  std::vector<std::uint32_t> primes;
  for (std::uint32_t prime = 2; ranks > 1; ++prime) {
    for (; ranks % prime == 0; ranks /= prime) primes.push_back(prime);
  }
  // The largest factors first, each to the axis that has the fewest parts.
  std::ranges::reverse(primes);
  for (const std::uint32_t prime : primes) *std::ranges::min_element(parts) *= prime;
  std::ranges::sort(parts, std::ranges::greater());
  return parts;
}

Layout::Layout(const Index& extents, const Index& parts, const Index& halo, std::uint32_t ranks)
    : extents_(extents), parts_(parts), halo_(halo) {
  if (!can_be_counted(extents, halo)) {
    throw UsageError({"make an array", product(extents) + " with a halo of " + product(halo),
                      "it is negative, or larger than 2^47 elements", "give other extents"});
  }
  if (are_as_many(parts, ranks)) return;
  throw UsageError({"distribute an array", product(extents) + " in " + product(parts) + " parts",
                    "there are " + std::to_string(ranks) + " ranks", "give as many parts as there are ranks"});
}

Box Layout::own(team::Rank rank) const {
  const auto yz = static_cast<std::int64_t>(rank) % (parts_[1] * parts_[2]);
  const Index part = {static_cast<std::int64_t>(rank) / (parts_[1] * parts_[2]), yz / parts_[2], yz % parts_[2]};
  Box box;
  for (std::size_t axis = 0; axis < kAxes; ++axis) {
    box.first[axis] = begin_of(part[axis], parts_[axis], extents_[axis]);
    box.last[axis] = begin_of(part[axis] + 1, parts_[axis], extents_[axis]);
  }
  return box;
}

team::Rank Layout::owner(const Index& index) const {
  std::int64_t rank = 0;
  for (std::size_t axis = 0; axis < kAxes; ++axis) {
    const std::int64_t part = ((index[axis] + 1) * parts_[axis] - 1) / extents_[axis];
    rank = rank * parts_[axis] + part;
  }
  return static_cast<team::Rank>(rank);
}

std::uint64_t Layout::capacity() const {
  std::uint64_t elements = 1;
  for (std::size_t axis = 0; axis < kAxes; ++axis) {
    const std::int64_t largest = (extents_[axis] + parts_[axis] - 1) / parts_[axis];
    elements *= static_cast<std::uint64_t>(largest + 2 * halo_[axis]);
  }
  return elements;
}

std::string Layout::text() const { return product(extents_) + " in " + product(parts_) + " parts"; }

}  // namespace farside::arrays
