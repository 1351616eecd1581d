#include "fabric/ucx/messages.h"

#include "base/wire.h"
#include "fabric/seal.h"

namespace farside {

namespace {

UcxIdentity identity_of(Decoder& in) {
  const auto first = in.number<std::uint64_t>();
  const auto second = in.number<std::uint64_t>();
  return {first, second};
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

std::string UcxGreeting::encode() const {
  const std::string about =
      Encoder().number(identity[0]).number(identity[1]).number(channel).number(link).number(nth).take();
  return seal(SealKind::greeting, about + worker);
}

UcxGreeting UcxGreeting::decode(std::string_view bytes) {
  Decoder in(unseal(SealKind::greeting, bytes, "a greeting"), "a greeting");
  UcxGreeting greeting;
  greeting.identity = identity_of(in);
  greeting.channel = in.number<std::uint64_t>();
  greeting.link = in.number<std::uint64_t>();
  greeting.nth = in.number<std::uint64_t>();
  greeting.worker = opaque_of(in);
  return greeting;
}

}  // namespace farside
