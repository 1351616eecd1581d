// handshake.h — how a member and the coordinator prove to each other that they know the pool's secret.
//
//   Hello      member → coordinator   magic, protocol, nonce m
//   Challenge  coordinator → member   magic, protocol, nonce c, proof over (Hello, nonce c)
//   Claim      member → coordinator   rank, purpose, proof over (Hello, Challenge, rank, purpose)
//
// Fixed sizes, so nothing is allocated for an unauthenticated peer. The proofs differ by role, so that neither can be
// turned back on its maker; both nonces are in both, so that none can be replayed. The key of the frames that follow
// (session.h) depends on all three. The bytes are pictured in docs/protocols/team.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "net/secret.h"

namespace farside::net {

/// Advances with every change of the messages of teams and services, and of constants on which both sides rely
/// (team/liveness.h, kv/protocol/lease.h).
inline constexpr std::uint32_t kTeamProtocol = 12;

struct Preamble {
  std::array<char, 8> magic{'f', 'a', 'r', 's', 'i', 'd', 'e', '\n'};
  std::uint32_t protocol = kTeamProtocol;
  std::uint32_t reserved = 0;
  Nonce nonce{};

  [[nodiscard]] bool is_farside() const { return magic == Preamble{}.magic; }
};

struct Hello {
  Preamble preamble;
};

struct Challenge {
  Preamble preamble;
  Digest proof{};
};

enum class ClaimPurpose : std::uint32_t {
  take_seat,  ///< a new process claims the rank
  keep_seat,  ///< the one that has it already, and lost the coordinator
  copy_log,   ///< no member: it keeps a copy of the coordinator's decisions
};

struct Claim {
  std::uint32_t rank = 0;
  ClaimPurpose purpose = ClaimPurpose::take_seat;
  Digest proof{};
};

static_assert(sizeof(Hello) == 48 && std::has_unique_object_representations_v<Hello>);
static_assert(sizeof(Challenge) == 80 && offsetof(Challenge, proof) == 48);
static_assert(std::has_unique_object_representations_v<Challenge>);
static_assert(sizeof(Claim) == 40 && std::has_unique_object_representations_v<Claim>);

/// The bytes of a message as they travel.
template <class Message>
requires std::has_unique_object_representations_v<Message>
[[nodiscard]] std::string_view wire_bytes(const Message& message) {
  return {reinterpret_cast<const char*>(&message), sizeof message};
}

[[nodiscard]] Hello make_hello();
[[nodiscard]] Challenge make_challenge(const Secret& secret, const Hello& hello);
[[nodiscard]] bool proves_coordinator(const Secret& secret, const Hello& hello, const Challenge& challenge);
[[nodiscard]] Claim make_claim(const Secret& secret, const Hello& hello, const Challenge& challenge, std::uint32_t rank,
                               ClaimPurpose purpose = ClaimPurpose::take_seat);
[[nodiscard]] bool proves_member(const Secret& secret, const Hello& hello, const Challenge& challenge,
                                 const Claim& claim);
[[nodiscard]] Digest session_key(const Secret& secret, const Hello& hello, const Challenge& challenge,
                                 const Claim& claim);

}  // namespace farside::net
