#include "team/coordinator_peer.h"

#include "base/assert.h"
#include "base/wire.h"

namespace farside::team {

namespace {

constexpr std::size_t kPartBytes = 16 << 10;    // of a gathered exchange, in one frame
constexpr std::size_t kUnsentBytes = 16 << 10;  // beyond which nothing more is sealed for a peer

}  // namespace

std::vector<SharedFields> parts_of(std::uint32_t number, const std::vector<std::string>& blobs) {
  std::vector<SharedFields> parts;
  for (std::size_t next = 0; next < blobs.size();) {
    Encoder part;
    part.number(number).number(static_cast<Rank>(next));
    std::size_t bytes = 0;
    for (; next < blobs.size() && bytes < kPartBytes; ++next) {
      part.text(blobs[next]);
      bytes += blobs[next].size() + sizeof(std::uint16_t);
    }
    parts.push_back(std::make_shared<const std::string>(part.take()));
  }
  return parts;
}

void CoordinatorPeer::send(net::FrameKind kind, SharedFields fields) {
  assert_that(session.has_value(), "only a peer that knows the secret is sent frames");
  outbox_.push_back({kind, std::move(fields)});
  send_what_fits();
}

void CoordinatorPeer::send_last(net::FrameKind kind, const std::string& reason) {
  connection.send(session->seal(kind, Encoder().text(reason).take()));
}

void CoordinatorPeer::send_what_fits() {
  while (!outbox_.empty() && connection.unsent_bytes() < kUnsentBytes) {
    const Unsealed frame = std::move(outbox_.front());
    outbox_.pop_front();
    connection.send(session->seal(frame.kind, *frame.fields));
  }
}

}  // namespace farside::team
