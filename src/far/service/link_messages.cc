#include "far/service/link_messages.h"

namespace farside::far {

std::string Welcome::encode() const {
  Encoder out = kLinkMessages.begin(LinkKind::welcome);
  hello.encode(out);
  out.text(table).text(memory).number(self);
  for (const std::string& node : nodes) out.text(node);
  return out.take();
}

Welcome decode_welcome(std::string_view message) {
  Decoder in = kLinkMessages.fields_of(message, LinkKind::welcome);
  Welcome welcome;
  welcome.hello = service::ServiceHello::decode(in);
  welcome.table = in.text();
  welcome.memory = in.text();
  welcome.self = in.number<std::uint32_t>();
  while (!in.rest().empty()) welcome.nodes.push_back(in.text());
  in.expect(welcome.self < welcome.nodes.size(), "its number is not that of a node");
  return welcome;
}

net::Secret far_secret(const net::Secret& pool) { return pool.for_purpose("farside far"); }

std::string encode_join(std::string_view fabric) { return kLinkMessages.begin(LinkKind::join).text(fabric).take(); }
std::string encode_joined(Holder holder) { return kLinkMessages.begin(LinkKind::joined).number(holder).take(); }
std::string encode_leave() { return kLinkMessages.begin(LinkKind::leave).take(); }
std::string encode_refused(std::string_view why) { return kLinkMessages.begin(LinkKind::refused).text(why).take(); }

}  // namespace farside::far
