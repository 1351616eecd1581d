// peer.h — what an engine knows about others, shared with the channels that post to them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

#include "farside/fabric/region.h"

namespace farside {

/// Random, drawn by each engine when it starts: says who greets, and tells incarnations apart.
using UcxIdentity = std::array<std::uint64_t, 2>;

/// One incarnation of a peer.
struct UcxPeer {
  const PeerId id;
  const UcxIdentity identity;
  const std::string service_address;  ///< UCX's address of its service worker
  std::atomic<bool> lost = false;     ///< for good
};

/// Memory of a peer, as every channel needs it before it unpacks the key for an endpoint of its own.
struct UcxRemoteMemory {
  const std::uint64_t base;  ///< in the peer's address space
  const std::string packed_key;
};

class UcxAccess final : public RemoteAccess {
 public:
  UcxAccess(std::shared_ptr<UcxPeer> peer, std::shared_ptr<const UcxRemoteMemory> memory)
      : peer_(std::move(peer)), memory_(std::move(memory)) {}

  [[nodiscard]] const std::shared_ptr<UcxPeer>& peer() const noexcept { return peer_; }
  [[nodiscard]] const std::shared_ptr<const UcxRemoteMemory>& memory() const noexcept { return memory_; }

 private:
  std::shared_ptr<UcxPeer> peer_;
  std::shared_ptr<const UcxRemoteMemory> memory_;
};

// Messages. A channel that opened an endpoint greets and posts nothing else until it was welcomed, so that each process
// can close whatever a peer opened to it. Over TCP, UCX does not tell the channel when that happened: an answer does.
//
//   greeting  sealed (seal.h): identity (two words), number of the link, address of the channel's worker
//   answer    number of the link, then 1: welcome, or 0: go away
inline constexpr unsigned kGreetingMessage = 1;
inline constexpr unsigned kAnswerMessage = 2;

struct UcxAnswer {
  std::uint64_t link;
  std::uint64_t welcome;
};
static_assert(sizeof(UcxAnswer) == 16 && std::has_unique_object_representations_v<UcxAnswer>);

}  // namespace farside
