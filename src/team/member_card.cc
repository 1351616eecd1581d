#include "team/member_card.h"

#include <cstdlib>
#include <utility>

#include "farside/base/error.h"

#include "base/wire.h"
#include "net/handshake.h"
#include "team/environment.h"

namespace farside::team {

namespace {

std::string_view name_of(FabricMode mode) {
  switch (mode) {
    case FabricMode::automatic: return "unset";
    case FabricMode::direct: return "direct";
    case FabricMode::ucx: return "ucx";
  }
  return "unknown";
}

}  // namespace

MemberCard MemberCard::of_this_process(std::uint16_t incarnation) {
  const char* terms = ::secure_getenv(kTermsVariable);
  return {.protocol = net::kTeamProtocol,
          .version = FARSIDE_VERSION,
          .mode = fabric_mode_from_environment(),
          .terms = terms == nullptr ? "" : terms,
          .host = host_identity(),
          .process = this_process(),
          .incarnation = incarnation};
}

std::string MemberCard::encode() const {
  Encoder out;
  out.number(protocol).text(version).number(static_cast<std::uint8_t>(mode)).text(terms).text(host);
  out.number(static_cast<std::uint32_t>(process.pid)).number(process.start_ticks).number(incarnation);
  return out.take();
}

MemberCard MemberCard::decode(std::string_view bytes) {
  Decoder in(bytes, "the card of a member");
  MemberCard card;
  card.protocol = in.number<std::uint32_t>();
  in.expect(card.protocol == net::kTeamProtocol, "it is of protocol " + std::to_string(card.protocol) +
                                                     ", this program's of " + std::to_string(net::kTeamProtocol));
  card.version = in.text();
  card.mode = static_cast<FabricMode>(in.number<std::uint8_t>());
  card.terms = in.text();
  card.host = in.text();
  card.process.pid = in.number<pid_t>();
  card.process.start_ticks = in.number<std::uint64_t>();
  card.incarnation = in.number<std::uint16_t>();
  in.expect_end();
  in.expect(card.process.pid > 0, "its process id is not positive");
  return card;
}

std::function<void(std::uint32_t, const std::string&)> MemberCard::admission(MemberCard card) {
  return [card = std::move(card)](std::uint32_t rank, const std::string& encoded) {
    card.expect_compatible(decode(encoded), rank);
  };
}

void MemberCard::expect_compatible(const MemberCard& other, std::uint32_t other_rank) const {
  const std::string peer = "rank " + std::to_string(other_rank);
  if (other.version != version) {
    throw Error({"form a team with", peer, "it uses farside " + other.version + " and the others " + version,
                 "install one version everywhere"});
  }
  if (other.mode != mode) {
    throw Error(
        {"form a team with", peer,
         "its FARSIDE_FABRIC is " + std::string(name_of(other.mode)) + " and the others' " + std::string(name_of(mode)),
         "set FARSIDE_FABRIC alike for every rank"});
  }
  if (other.terms != terms) {
    throw Error({"form a team with", peer, "it was started with " + other.terms + " and the others with " + terms,
                 "give the same options on every machine"});
  }
}

}  // namespace farside::team
