// mailbox_inbox.h — a server's mailboxes.
//
// Thread safety: one thread at a time, that of the channel.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "kv/mailbox/bell.h"
#include "kv/mailbox/served_mailbox.h"
#include "kv/protocol/inbox.h"

namespace farside::kv {

class MailboxInbox final : public Inbox {
 public:
  /// `bell_offset` of `bells`: the AtomicWord that clients advance to wake this server.
  MailboxInbox(Fabric& fabric, Channel& channel, const Region& bells, std::uint64_t bell_offset,
               const MailboxShape& shape, const ReplyTimeouts& timeouts = {})
      : fabric_(fabric),
        channel_(channel),
        bell_(fabric, channel, bells, bell_offset),
        shape_(shape),
        timeouts_(timeouts) {}

  using Number = std::uint64_t;
  /// Serves `client` until it is lost, speaks another protocol, or is detached.
  Number attach(const MailboxEnd& client, Waking waking);
  /// Its rings are not used any more. It may have ended by itself before.
  void detach(Number mailbox);
  /// `client` is lost, and its number may be another one's next: what was lost with it is no news to that one.
  void forget(PeerId client);

  bool serve(const Answer& answer, Duration pause) override;
  void release(const Revision& revision) override;
  [[nodiscard]] Duration longest_pause() const override;
  [[nodiscard]] std::uint64_t ring_bytes() const override { return connections_.size() * shape_.ring_bytes(); }

 private:
  static constexpr Duration kMaxPolledPause = std::chrono::milliseconds(1);

  struct Connection {
    Number number;
    Waking waking;
    ServedMailbox mailbox;
    std::deque<Message> held{};
    bool ended = false;  ///< the client is gone, or does not speak this protocol
  };

  bool serve(Connection& connection, const Answer& answer) const;
  static void send_held(Connection& connection);

  Fabric& fabric_;
  Channel& channel_;
  const Bell bell_;
  const MailboxShape shape_;
  const ReplyTimeouts timeouts_;
  std::vector<std::unique_ptr<Connection>> connections_;
  Number attached_ = 0;  ///< so many, so far
};

}  // namespace farside::kv
