#include "far/service/link_messages.h"

#include "base/wire.h"

namespace farside::far {

namespace {

constexpr LinkKind kLastKind = LinkKind::refused;
constexpr std::string_view kWhat = "a message of far memory's link";

Encoder begin(LinkKind kind) { return Encoder().choice(kind); }

Decoder fields_of(std::string_view message, LinkKind kind) {
  Decoder in(message, kWhat);
  in.expect(in.choice(kLastKind) == kind, "it is not the one that was expected");
  return in;
}

}  // namespace

std::string Welcome::encode() const {
  Encoder out = begin(LinkKind::welcome);
  greeting.encode(out);
  out.text(table).text(memory).number(self);
  for (const std::string& node : nodes) out.text(node);
  return out.take();
}

Welcome decode_welcome(std::string_view message) {
  Decoder in = fields_of(message, LinkKind::welcome);
  Welcome welcome;
  welcome.greeting = ServiceGreeting::decode(in);
  welcome.table = in.text();
  welcome.memory = in.text();
  welcome.self = in.number<std::uint32_t>();
  while (!in.rest().empty()) welcome.nodes.push_back(in.text());
  in.expect(welcome.self < welcome.nodes.size(), "its number is not that of a node");
  return welcome;
}

Secret far_secret(const Secret& pool) { return pool.for_purpose("farside far"); }

std::string encode_join(std::string_view fabric) { return begin(LinkKind::join).text(fabric).take(); }
std::string encode_joined(Holder holder) { return begin(LinkKind::joined).number(holder).take(); }
std::string encode_leave() { return begin(LinkKind::leave).take(); }
std::string encode_refused(std::string_view why) { return begin(LinkKind::refused).text(why).take(); }

LinkKind kind_of(std::string_view message) { return Decoder(message, kWhat).choice(kLastKind); }

Holder decode_joined(std::string_view message) {
  Decoder in = fields_of(message, LinkKind::joined);
  const auto holder = in.number<Holder>();
  in.expect_end();
  return holder;
}

std::string decode_text(std::string_view message) {
  Decoder in = fields_of(message, kind_of(message));
  std::string text = in.text();
  in.expect_end();
  return text;
}

}  // namespace farside::far
