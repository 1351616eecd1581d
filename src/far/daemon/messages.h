// messages.h — what an unmodified program and `farside far` say to each other, over Unix sockets of whole packets.
// docs/protocols/far_daemon.md has the steps. Both sides are of one build and one machine; a packet is still checked.
//
// Included by the preload library, which needs nothing but libc: no other header of farside may be named here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace farside::far {

inline constexpr std::uint32_t kDaemonVersion = 2;
inline constexpr char kDaemonVariable[] = "FARSIDE_FAR";  ///< the socket's path, in the program's environment

enum class DaemonPacketKind : std::uint32_t {
  welcome = 1,  ///< server: value = bytes of the arena to reserve, extra = bytes from which an allocation is far
  join,         ///< program: version, ranges to serve, and with it a userfaultfd
  joined,       ///< server: value = token, which every other connection of this process shows
  refused,      ///< server: the packet's text says why
  drop,         ///< server: take the memory of these ranges away
  dropped,      ///< program: done
  discard,      ///< program, with token: these ranges are free, zeros from now on, and without a hint
  clear,      ///< program, with token: these ranges, which it uses, are zeros from now on; refused where one is pinned
  give_away,  ///< program, with token: something else is about to be mapped over these ranges
  advise,     ///< program, with token: extra = far::Hint of these ranges; pages that are pinned stay so
  unpin,      ///< program, with token: these ranges may leave again
  allocated,  ///< program, with token: extra = address from which it called for this range
  fork_begins,  ///< program, with token
  quiet,        ///< server: no page of the process leaves; the fork may happen
  forked,       ///< program, the parent: it has happened, or failed
  done,         ///< server: of discard, clear, give_away, advise, unpin and allocated
};

/// Whole pages.
struct AddressRange {
  std::uint64_t address;
  std::uint64_t bytes;
};

struct DaemonPacket {
  static constexpr std::size_t kRanges = 64;

  DaemonPacketKind kind;
  std::uint32_t version;
  std::uint64_t value;  ///< token, or what the kind says
  std::uint64_t extra;
  std::uint64_t count;  ///< of ranges; or bytes of text, which lies in their place
  std::array<AddressRange, kRanges> ranges;

  /// Returns how many bytes of a packet with `count` ranges are sent.
  [[nodiscard]] static constexpr std::size_t bytes(std::size_t count) {
    return offsetof(DaemonPacket, ranges) + count * sizeof(AddressRange);
  }
};

}  // namespace farside::far
