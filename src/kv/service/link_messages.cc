#include "kv/service/link_messages.h"

namespace farside::kv {

std::string Welcome::encode() const {
  Encoder out = kLinkMessages.begin(LinkKind::welcome);
  hello.encode(out);
  out.text(memory).text(bells).number(mailbox.slots).number(mailbox.slot_bytes);
  out.number(static_cast<std::uint64_t>(grace.count())).number(self).number(static_cast<std::uint8_t>(seat));
  out.number(incarnation).choice(has_nothing).choice(goes_on).choice(waits);
  out.choice(claim.standing).number(claim.epoch).number(claim.store);
  out.number(static_cast<std::uint32_t>(longest_silence.count()));
  out.number(static_cast<ServerNumber>(servers.size()));
  for (const std::string& server : servers) out.text(server);
  for (const std::string& standby : standbys) out.text(standby);
  return out.take();
}

Welcome decode_welcome(std::string_view message) {
  Decoder in = kLinkMessages.fields_of(message, LinkKind::welcome);
  Welcome welcome;
  welcome.hello = service::ServiceHello::decode(in);
  welcome.memory = in.text();
  welcome.bells = in.text();
  welcome.mailbox.slots = in.number<std::uint32_t>();
  welcome.mailbox.slot_bytes = in.number<std::uint32_t>();
  welcome.grace = Duration(in.number<std::uint64_t>());
  welcome.self = in.number<ServerNumber>();
  welcome.seat = in.number<std::uint8_t>();
  welcome.incarnation = in.number<std::uint16_t>();
  welcome.has_nothing = in.flag();
  welcome.goes_on = in.flag();
  welcome.waits = in.flag();
  welcome.claim.standing = in.choice(CopyStanding::alone);
  welcome.claim.epoch = in.number<std::uint64_t>();
  welcome.claim.store = in.number<std::uint64_t>();
  welcome.longest_silence = std::chrono::milliseconds(in.number<std::uint32_t>());
  const auto servers = in.number<ServerNumber>();
  for (ServerNumber server = 0; server < servers; ++server) welcome.servers.push_back(in.text());
  while (!in.rest().empty()) welcome.standbys.push_back(in.text());
  in.expect(welcome.self < servers, "its number is not that of a server");
  in.expect(welcome.standbys.size() == (welcome.standbys.empty() ? 0 : servers), "some servers have no standby");
  in.expect(welcome.seat < 2, "its partition has no such seat");
  in.expect(!welcome.follows() || !welcome.standbys.empty(), "it is a standby where there are none");
  return welcome;
}

std::string OpenRequest::encode() const {
  return kLinkMessages.begin(LinkKind::open).text(rings).number(offset).choice(waking).take();
}

OpenRequest decode_open(std::string_view message) {
  Decoder in = kLinkMessages.fields_of(message, LinkKind::open);
  OpenRequest request;
  request.rings = in.text();
  request.offset = in.number<std::uint64_t>();
  request.waking = in.choice(Waking::doorbell);
  in.expect_end();
  return request;
}

std::string Opened::encode() const { return kLinkMessages.begin(LinkKind::opened).number(mailbox).text(ring).take(); }

Opened decode_opened(std::string_view message) {
  Decoder in = kLinkMessages.fields_of(message, LinkKind::opened);
  Opened opened;
  opened.mailbox = in.number<std::uint64_t>();
  opened.ring = in.text();
  in.expect_end();
  return opened;
}

std::string Join::encode() const { return kLinkMessages.begin(LinkKind::join).text(fabric).text(told).take(); }

Join decode_join(std::string_view message) {
  Decoder in = kLinkMessages.fields_of(message, LinkKind::join);
  Join join;
  join.fabric = in.text();
  join.told = in.text();
  in.expect_end();
  return join;
}

std::string encode_joined(std::uint64_t epoch) { return kLinkMessages.begin(LinkKind::joined).number(epoch).take(); }
std::string encode_ship(std::uint16_t incarnation) {
  return kLinkMessages.begin(LinkKind::ship).number(incarnation).take();
}
std::string encode_shipping(std::string_view ring) { return kLinkMessages.begin(LinkKind::shipping).text(ring).take(); }
std::string encode_leave() { return kLinkMessages.begin(LinkKind::leave).take(); }
std::string encode_close(std::uint64_t mailbox) { return kLinkMessages.begin(LinkKind::close).number(mailbox).take(); }
std::string encode_refused(std::string_view why) { return kLinkMessages.begin(LinkKind::refused).text(why).take(); }

}  // namespace farside::kv
