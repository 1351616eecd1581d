// queue_inbox.h — a server's clients by send and receive (queue_stream.h).
//
// Thread safety: one thread at a time, that of the channel.
#pragma once

#include <vector>

#include "kv/mailbox/bell.h"
#include "kv_baselines/transports/queue_stream.h"
#include "kv_baselines/transports/served_stream.h"

namespace farside::kv_baselines {

class QueueInbox final : public kv::Inbox {
 public:
  /// `bell_offset` of `bells`: the AtomicWord that clients advance when they have sent or taken something.
  QueueInbox(Fabric& fabric, Channel& channel, const Region& bells, std::uint64_t bell_offset,
             const kv::MailboxShape& shape)
      : fabric_(fabric), channel_(channel), bell_(fabric, channel, bells, bell_offset), shape_(shape) {}

  void attach(const kv::MailboxEnd& client);

  bool serve(const Answer& answer, Duration pause) override;
  void release(const Revision& revision) override;

 private:
  Fabric& fabric_;
  Channel& channel_;
  const kv::Bell bell_;
  const kv::MailboxShape shape_;
  std::vector<ServedStream> clients_;
};

}  // namespace farside::kv_baselines
