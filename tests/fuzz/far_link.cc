// What clients and nodes of far memory say on their link (far/service/link_messages.h).
#include "far/service/link_messages.h"
#include "tests/fuzz/decode.h"

namespace farside::fuzz {
namespace {

using namespace far;

/// What the message is when it is understood.
std::string encoded_again(std::string_view message) {
  switch (kLinkMessages.kind_of(message)) {
    case LinkKind::welcome: return decode_welcome(message).encode();
    case LinkKind::join: return encode_join(kLinkMessages.text_of(message));
    case LinkKind::joined: return encode_joined(kLinkMessages.number_of<Holder>(message));
    case LinkKind::refused: return encode_refused(kLinkMessages.text_of(message));
    case LinkKind::leave: break;  // it has no fields, and no receiver looks for any
  }
  return std::string(message);
}

}  // namespace
}  // namespace farside::fuzz

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t bytes) {
  farside::fuzz::expect_refused_or_understood(farside::fuzz::text(data, bytes), farside::fuzz::encoded_again);
  return 0;
}
