// What a peer writes into the ring of a mailbox (kv/mailbox/mailbox.h): anything, anywhere, and parcels whose
// indicators are right and whose contents are not. Server and client must bear it; neither waits for what never comes.
//
// Input: who receives (1 byte: even the server), and for each thing that is written its kind (1 byte): even, bytes as
// they are: where in the ring (2), how many (1), the bytes; odd, a parcel: its kind (1), the rest it announces (1,
// times 2^(24 - its kind)), how many bytes (1), the bytes. After each the receiver looks.
#include "kv/mailbox/mailbox.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "kv/mailbox/served_mailbox.h"
#include "tests/fuzz/input.h"

namespace farside::fuzz {
namespace {

using namespace kv;

constexpr MailboxShape kShape{.slots = 2, .slot_bytes = 256};
constexpr PeerId kSelf = 0;

/// As a receiver sees it, and as its peer.
class Rings {
 public:
  Rings() {
    fabric_->connect(kSelf, fabric_->address());
    receivers_remote_ = fabric_->attach(kSelf, receivers_->handle());
    peers_remote_ = fabric_->attach(kSelf, peers_->handle());
  }

  [[nodiscard]] Fabric& fabric() { return *fabric_; }
  [[nodiscard]] Channel& channel() { return *channel_; }
  [[nodiscard]] const Region& receivers() const { return *receivers_; }
  [[nodiscard]] MailboxEnd of_receiver() const { return {receivers_.get(), 0, peers_remote_.get(), 0, true, {}}; }
  [[nodiscard]] MailboxEnd of_peer() const { return {peers_.get(), 0, receivers_remote_.get(), 0, true, {}}; }

 private:
  std::unique_ptr<Fabric> fabric_ = make_host_fabric({.mode = FabricMode::direct});
  std::unique_ptr<Region> receivers_ = fabric_->create_region("receiver's", kShape.ring_bytes());
  std::unique_ptr<Region> peers_ = fabric_->create_region("peer's", kShape.ring_bytes());
  std::unique_ptr<RemoteRegion> receivers_remote_;
  std::unique_ptr<RemoteRegion> peers_remote_;
  std::unique_ptr<Channel> channel_ = fabric_->open_channel();
};

/// Writes the next thing into the receiver's ring.
void write_next(Input& input, Rings& rings, MailboxSender& peer) {
  if (input.byte() % 2 == 0) {
    const std::uint64_t ring_bytes = kShape.ring_bytes();
    const std::uint64_t at = (input.byte() << 8U | input.byte()) % ring_bytes;
    const auto bytes = input.bytes(std::min(input.byte(), ring_bytes - at));
    rings.receivers().copy_in(at, bytes);
    return;
  }
  const auto kind = static_cast<unsigned>(input.byte());
  const ParcelHead head{static_cast<ParcelHead::Kind>(kind), input.byte() << (24U - kind % 25U)};
  const auto piece = input.bytes(std::min(input.byte(), kShape.piece_bytes()));
  const Deadline soon = rings.fabric().in(std::chrono::seconds(30));
  if (peer.make_ready(soon) != Outcome::done || peer.send(head, piece, soon) != Outcome::done) std::abort();
}

void have_served(Input& input, Rings& rings, MailboxSender& peer) {
  ServedMailbox served(rings.fabric(), rings.channel(), rings.of_receiver(), kShape, Waking::polled);
  while (!input.is_over()) {
    write_next(input, rings, peer);
    for (;;) {
      const auto came = served.poll();
      if (came == ServedMailbox::Came::end) return;
      if (came == ServedMailbox::Came::nothing) break;
      if (came == ServedMailbox::Came::request) served.reply(Message(3 * served.request().size()));
    }
  }
}

void have_received(Input& input, Rings& rings, MailboxSender& peer) {
  MailboxRequests requests(rings.fabric(), rings.channel(), {rings.of_receiver()}, kShape, Waking::polled);
  constexpr Duration kAMoment = std::chrono::microseconds(50);
  const Message message(1);
  if (requests.send(0, message, rings.fabric().in(kAMoment)) != Outcome::done) return;
  for (bool is_unanswered = true; is_unanswered && !input.is_over();) {
    write_next(input, rings, peer);
    if (!requests.has_reply(0)) continue;
    if (requests.receive(0, rings.fabric().in(kAMoment)).status == Outcome::peer_lost) return;
    is_unanswered = false;
  }
}

}  // namespace
}  // namespace farside::fuzz

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace farside;
  fuzz::Input input(std::as_bytes(std::span(data, size)));
  fuzz::Rings rings;
  kv::MailboxSender peer(rings.fabric(), rings.channel(), rings.of_peer(), fuzz::kShape, {}, {});
  if (input.byte() % 2 == 0) {
    fuzz::have_served(input, rings, peer);
  } else {
    fuzz::have_received(input, rings, peer);
  }
  return 0;
}
