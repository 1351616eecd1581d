#include "fabric/ucx/messages.h"

#include "base/hmac.h"
#include "base/wire.h"
#include "fabric/seal.h"

namespace farside {

namespace {

UcxIdentity identity_of(Decoder& in) {
  const auto first = in.number<std::uint64_t>();
  const auto second = in.number<std::uint64_t>();
  return {first, second};
}

Digest proof_of(std::string_view content, std::string_view secret, const UcxIdentity& to) {
  const std::string whose = Encoder().number(to[0]).number(to[1]).take();
  return hmac_sha256(as_octets(secret), whose + std::string(content));
}

// The bytes that UCX made itself, which end every message.
std::string opaque_of(const Decoder& in) {
  in.expect(!in.rest().empty(), "it is cut short");
  return std::string(in.rest());
}

}  // namespace

std::string UcxAddress::encode() const {
  return seal(SealKind::address, Encoder().number(identity[0]).number(identity[1]).take() + worker);
}

UcxAddress UcxAddress::decode(std::string_view bytes) {
  Decoder in(unseal(SealKind::address, bytes, "a UCX address"), "a UCX address");
  UcxAddress address;
  address.identity = identity_of(in);
  address.worker = opaque_of(in);
  return address;
}

std::string UcxRemoteMemory::encode() const {
  return seal(SealKind::memory, Encoder().number(base).take() + packed_key);
}

UcxRemoteMemory UcxRemoteMemory::decode(std::string_view bytes) {
  Decoder in(unseal(SealKind::memory, bytes, "a UCX memory handle"), "a UCX memory handle");
  UcxRemoteMemory memory;
  memory.base = in.number<std::uint64_t>();
  memory.packed_key = opaque_of(in);
  return memory;
}

std::string UcxHello::encode(std::string_view secret, const UcxIdentity& to) const {
  const std::string content =
      Encoder().number(identity[0]).number(identity[1]).number(channel).number(link).number(nth).take() + worker;
  const Digest proof = proof_of(content, secret, to);
  return seal(SealKind::hello, std::string(proof.begin(), proof.end()) + content);
}

// No byte is looked at before the proof: UCX would follow the worker's address wherever it leads.
UcxHello UcxHello::decode(std::string_view bytes, std::string_view secret, const UcxIdentity& self) {
  const std::string_view unsealed = unseal(SealKind::hello, bytes, "a hello");
  const std::string_view proof = unsealed.substr(0, sizeof(Digest));
  const std::string_view content = unsealed.substr(proof.size());
  Decoder in(content, "a hello");
  in.expect(equal_in_constant_time(as_octets(proof), proof_of(content, secret, self)),
            "the process that sent it does not know the secret of this one's peers");
  UcxHello hello;
  hello.identity = identity_of(in);
  hello.channel = in.number<std::uint64_t>();
  hello.link = in.number<std::uint64_t>();
  hello.nth = in.number<std::uint64_t>();
  hello.worker = opaque_of(in);
  return hello;
}

}  // namespace farside
