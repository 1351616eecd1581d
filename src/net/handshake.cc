#include "net/handshake.h"

namespace farside::net {

namespace {

Digest coordinator_proof(const Secret& secret, const Hello& hello, const Challenge& challenge) {
  return secret.prove("farside coordinator", {wire_bytes(hello), wire_bytes(challenge.preamble)});
}

Digest member_proof(const Secret& secret, const Hello& hello, const Challenge& challenge, const Claim& claim) {
  const std::string_view claimed = wire_bytes(claim).substr(0, offsetof(Claim, proof));
  return secret.prove("farside member", {wire_bytes(hello), wire_bytes(challenge), claimed});
}

}  // namespace

Hello make_hello() {
  Hello hello;
  hello.preamble.nonce = random_nonce();
  return hello;
}

Challenge make_challenge(const Secret& secret, const Hello& hello) {
  Challenge challenge;
  challenge.preamble.nonce = random_nonce();
  challenge.proof = coordinator_proof(secret, hello, challenge);
  return challenge;
}

bool proves_coordinator(const Secret& secret, const Hello& hello, const Challenge& challenge) {
  return equal_in_constant_time(challenge.proof, coordinator_proof(secret, hello, challenge));
}

Claim make_claim(const Secret& secret, const Hello& hello, const Challenge& challenge, std::uint32_t rank,
                 ClaimPurpose purpose) {
  Claim claim{.rank = rank, .purpose = purpose};
  claim.proof = member_proof(secret, hello, challenge, claim);
  return claim;
}

bool proves_member(const Secret& secret, const Hello& hello, const Challenge& challenge, const Claim& claim) {
  return equal_in_constant_time(claim.proof, member_proof(secret, hello, challenge, claim));
}

Digest session_key(const Secret& secret, const Hello& hello, const Challenge& challenge, const Claim& claim) {
  return secret.prove("farside session", {wire_bytes(hello), wire_bytes(challenge), wire_bytes(claim)});
}

}  // namespace farside::net
