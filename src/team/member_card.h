// member_card.h — what members tell each other first, to see whether and how they can work together.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "farside/fabric/fabric.h"

#include "fabric/host/process.h"

namespace farside::team {

struct MemberCard {
  std::uint32_t protocol = 0;
  std::string version;  ///< of farside
  FabricMode mode = FabricMode::automatic;
  std::string terms;  ///< the options that all members must have been started with; what they are is the launcher's
  std::string host;   ///< host_identity()
  ProcessId process;
  std::uint16_t incarnation = 0;  ///< of its rank

  [[nodiscard]] static MemberCard of_this_process(std::uint16_t incarnation);

  [[nodiscard]] std::string encode() const;
  [[nodiscard]] static MemberCard decode(std::string_view bytes);

  /// Throws Error, naming what differs, when the two cannot be members of one team: one protocol and version, and one
  /// fabric mode, so that all atomics on a region take one path; and equal terms.
  void expect_compatible(const MemberCard& other, std::uint32_t other_rank) const;

  /// The coordinator's admission of members whose cards go with this one.
  [[nodiscard]] static std::function<void(std::uint32_t rank, const std::string& encoded)> admission(MemberCard card);
};

}  // namespace farside::team
