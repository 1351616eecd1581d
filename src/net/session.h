// session.h — the frames between a member and the coordinator after their handshake.
//
//    0   4  bytes   of the body
//    4  16  mac     first half of HMAC-SHA-256(session key, direction (1 byte) | frame number (8) | body)
//   20   n  body    kind (1 byte), then its fields
//
// Frame numbers count per direction and do not travel, so a frame that was altered, left out, repeated or turned back
// ends the session. Frames are not encrypted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "net/secret.h"

namespace farside::net {

enum class FrameKind : std::uint8_t {
  welcome,  ///< ← team (8), generation (4), size (4), incarnation (2), epoch (4), complete exchanges (4), silent beats
            ///< (4), whether a coordinator may be started again (1), each lost rank (4)
  refused,     ///< ← reason (text)
  contribute,  ///< → number of the exchange (4), epoch (4), how long the answer may take in ms (4), blob (text)
  gathered,  ///< ← number of the exchange (4), a rank (4), the blobs (text) of that rank and the next ones; in order
  lost,      ///< ← epoch (4), rank (4), Loss (1)
  evict,     ///< → rank (4), incarnation (2)
  leave,     ///< → this member ends as it should
  beat,      ///< ↔ between hosts: I am here
  failed,    ///< ← reason (text): the exchange cannot be completed, and there is no further one
  returned,  ///< ← epoch (4), rank (4), then its blob (text) of each exchange that is complete
  service,   ///< ↔ what a service of the pool and its clients say in a protocol of their own
  keep,  ///< → team (8), generation (4), incarnation (2), epoch (4): it keeps its seat; it gets welcome and what it
         ///< missed
  unknown,  ///< ← reason (text): this coordinator knows nothing of that team
  ended,    ///< ← the team ends: the coordinator's process ends as it should
  entry,    ///< ← of the coordinator's log: its head, the state, then each decision
};

/// A member contributes at most this much to one exchange.
inline constexpr std::size_t kBlobLimit = 8 << 10;
inline constexpr std::size_t kFrameHeader = 20;

/// Returns the size of the body of the frame whose header begins `frame`.
[[nodiscard]] std::size_t body_bytes(std::string_view frame);

struct Frame {
  FrameKind kind;
  std::string fields;
};

class Session {
 public:
  enum class Side : std::uint8_t { member, coordinator };
  enum class Next { frame, incomplete, broken };
  struct Opened {
    Next next;
    Frame frame{};  ///< if it is one
  };

  /// Bodies above `body_limit` bytes are refused unread.
  Session(const Digest& key, Side self, std::size_t body_limit) : key_(key), self_(self), body_limit_(body_limit) {}

  [[nodiscard]] std::string seal(FrameKind kind, std::string_view fields = {});
  /// Takes the next whole frame out of `bytes`.
  [[nodiscard]] Opened open(std::string& bytes);

 private:
  [[nodiscard]] std::string mac(Side sender, std::uint64_t number, std::string_view body) const;

  Digest key_;
  Side self_;
  std::size_t body_limit_;
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
};

}  // namespace farside::net
