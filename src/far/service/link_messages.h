// link_messages.h — what a client and a node that lends memory say on their socket after the handshake
// (docs/protocols/far.md, "Links").
//
//   welcome ←   at once: what the node is, and where its memory is
//   join    →   how the client is reached
//   joined  ←   the number that its slabs bear
//   leave   →   it has nothing mapped any more, and will not come back
//   refused ←   why; the end
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "far/protocol/layout.h"
#include "service/service_link.h"
#include "service/service_messages.h"

namespace farside::far {

/// The names of its sockets begin with this.
inline constexpr std::string_view kServiceName = "far";

enum class LinkKind : std::uint8_t { welcome, join, joined, leave, refused };

inline constexpr service::ServiceMessages<LinkKind> kLinkMessages{"a message of far memory's link", LinkKind::refused};

struct Welcome {
  service::ServiceHello hello;
  std::uint32_t self = 0;          ///< its number
  std::vector<std::string> nodes;  ///< where each listens, by number
  std::string table;               ///< handles of its regions (layout.h)
  std::string memory;

  [[nodiscard]] std::string encode() const;
};

[[nodiscard]] std::string encode_join(std::string_view fabric);
[[nodiscard]] std::string encode_joined(Holder holder);
[[nodiscard]] std::string encode_leave();
[[nodiscard]] std::string encode_refused(std::string_view why);

/// Throws Error when it is malformed. The others have a single field, or none.
[[nodiscard]] Welcome decode_welcome(std::string_view message);

/// The secret of a pool, as far memory uses it.
[[nodiscard]] net::Secret far_secret(const net::Secret& pool);

}  // namespace farside::far
