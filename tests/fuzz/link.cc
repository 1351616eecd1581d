// What clients and servers of kv say on their link (kv/service/link_messages.h), after a handshake that says nothing of
// their wits.
#include "kv/service/link_messages.h"
#include "tests/fuzz/decode.h"

namespace farside::fuzz {
namespace {

using namespace kv;

/// What the message is when it is understood.
std::string encoded_again(std::string_view message) {
  switch (kLinkMessages.kind_of(message)) {
    case LinkKind::welcome: return decode_welcome(message).encode();
    case LinkKind::join: return decode_join(message).encode();
    case LinkKind::open: return decode_open(message).encode();
    case LinkKind::opened: return decode_opened(message).encode();
    case LinkKind::close: return encode_close(kLinkMessages.number_of<std::uint64_t>(message));
    case LinkKind::refused: return encode_refused(kLinkMessages.text_of(message));
    case LinkKind::joined: return encode_joined(kLinkMessages.number_of<std::uint64_t>(message));
    case LinkKind::shipping: return encode_shipping(kLinkMessages.text_of(message));
    case LinkKind::ship:
    case LinkKind::leave: break;  // they have no fields, and no receiver looks for any
  }
  return std::string(message);
}

}  // namespace
}  // namespace farside::fuzz

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t bytes) {
  farside::fuzz::expect_refused_or_understood(farside::fuzz::text(data, bytes), farside::fuzz::encoded_again);
  return 0;
}
