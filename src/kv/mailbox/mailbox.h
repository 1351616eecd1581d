// mailbox.h — requests and their replies by RDMA WRITE (docs/protocols/kv.md, "Mailboxes"): the client's side.
//
// Each connection has a ring in either direction (mailbox_ring.h). Every parcel of the client is answered by one of the
// server with the same number, so a slot is free again when its answer was taken. What does not fit into a slot goes in
// pieces, each of which is answered before the next one.
//
// Thread safety: one thread at a time, that of the channel.
#pragma once

#include <memory>
#include <vector>

#include "kv/mailbox/mailbox_ring.h"
#include "kv/protocol/requests.h"

namespace farside::kv {

class MailboxRequests final : public Requests {
 public:
  /// `servers` by number: where the rings of this client and of each server are. Their regions outlive this.
  MailboxRequests(Fabric& fabric, Channel& channel, const std::vector<MailboxEnd>& servers, const MailboxShape& shape,
                  Waking waking, const MailboxRules& rules = {});
  ~MailboxRequests() override;

  /// From now on another server has that number; what was asked of the former is not answered. `end` is new.
  void replace(ServerNumber server, const MailboxEnd& end);

  [[nodiscard]] ServerNumber servers() const override { return static_cast<ServerNumber>(connections_.size()); }
  /// Throws UsageError when the request is longer than kMaxMessageBytes. Waits for room, and while the request goes
  /// in pieces. Unless done there is no reply to receive, and it is unknown whether the request was executed.
  Outcome send(ServerNumber server, std::span<const std::byte> request, Deadline deadline) override;
  /// Throws UsageError when nothing is unanswered.
  Result<Message> receive(ServerNumber server, Deadline deadline) override;
  [[nodiscard]] bool has_reply(ServerNumber server) override;
  [[nodiscard]] bool is_loss_final(ServerNumber /*server*/) override { return true; }
  /// Waits until it has. After timed_out the reply can still be received.
  Outcome await(ServerNumber server, Deadline deadline) override;

 private:
  class Connection;
  [[nodiscard]] std::unique_ptr<Connection> connect(const MailboxEnd& end);

  Fabric& fabric_;
  Channel& channel_;
  const MailboxShape shape_;
  const Waking waking_;
  const MailboxRules rules_;
  std::vector<std::unique_ptr<Connection>> connections_;
};

}  // namespace farside::kv
