#include "comm/protocol/combining_tree.h"

#include <algorithm>
#include <string>

#include "farside/base/error.h"
#include "farside/base/rounding.h"

#include "base/assert.h"

namespace farside::comm {

namespace {

// How many members are below a node of `level`.
std::uint64_t span_of(std::uint32_t level) {
  std::uint64_t span = CombiningTree::kFanIn;
  for (; level > 0; --level) span *= CombiningTree::kFanIn;
  return span;
}

}  // namespace

CombiningTree::CombiningTree(std::uint32_t members) : members_(members), levels_(1) {
  if (members == 0 || members > span_of(kMaxLevels - 1)) {
    throw UsageError({"form a group of", std::to_string(members) + " ranks",
                      "it has at least 1 and at most " + std::to_string(span_of(kMaxLevels - 1)), ""});
  }
  while (span_of(levels_ - 1) < members) ++levels_;
}

std::vector<CombiningTree::Node> CombiningTree::way_up(std::uint32_t member) const {
  std::vector<Node> nodes;
  for (std::uint32_t level = 0; level < levels_; ++level) nodes.push_back(above(member, level));
  return nodes;
}

CombiningTree::Node CombiningTree::above(std::uint32_t member, std::uint32_t level) const {
  const std::uint64_t span = span_of(level);
  const std::uint64_t first = member / span * span;
  const std::uint64_t below = std::min<std::uint64_t>(span, members_ - first);
  const std::uint64_t child_span = span / kFanIn;
  const Node node = {.level = level,
                     .host = static_cast<std::uint32_t>(first),
                     .fan_in = static_cast<std::uint32_t>(div_ceil(below, child_span)),
                     .child = static_cast<std::uint32_t>((member - first) / child_span)};
  assert_that(node.child < node.fan_in && node.fan_in <= kFanIn, "a child is one of those that meet at its node");
  return node;
}

}  // namespace farside::comm
