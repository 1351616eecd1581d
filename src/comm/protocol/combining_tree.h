// combining_tree.h — which ranks meet where in a barrier or a reduction, and where the words for it lie
// (docs/protocols/comm.md).
//
// The members of a group are numbered from 0. At most kFanIn of them meet at a node of level 0, at most kFanIn of those
// nodes at one of level 1, and so on up to the root. A node's words lie at the first member below it.
#pragma once

#include <cstdint>
#include <vector>

namespace farside::comm {

class CombiningTree {
 public:
  static constexpr std::uint32_t kFanIn = 8;
  static constexpr std::uint32_t kMaxLevels = 6;  ///< 8^6 members

  /// Throws UsageError when there are none or too many.
  explicit CombiningTree(std::uint32_t members);

  struct Node {
    std::uint32_t level;
    std::uint32_t host;    ///< the member at which its words lie
    std::uint32_t fan_in;  ///< how many meet there
    std::uint32_t child;   ///< which of them comes from the member that was asked about
  };
  [[nodiscard]] std::uint32_t members() const noexcept { return members_; }
  [[nodiscard]] std::uint32_t levels() const noexcept { return levels_; }
  /// The nodes above `member`, up to the root.
  [[nodiscard]] std::vector<Node> way_up(std::uint32_t member) const;

 private:
  /// The node of `level`.
  [[nodiscard]] Node above(std::uint32_t member, std::uint32_t level) const;

  std::uint32_t members_;
  std::uint32_t levels_;
};

}  // namespace farside::comm
