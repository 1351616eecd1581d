#include "kv_baselines/transports/queue_inbox.h"

#include <memory>

namespace farside::kv_baselines {

void QueueInbox::attach(const kv::MailboxEnd& client) {
  clients_.emplace_back(std::make_unique<QueueStream>(fabric_, channel_, client, shape_));
}

bool QueueInbox::serve(const Answer& answer, Duration pause) {
  const std::uint64_t bell_before = bell_.rung();
  bool any = false;
  for (ServedStream& client : clients_) any = client.serve(answer) || any;
  std::erase_if(clients_, [](const ServedStream& client) { return client.has_ended(); });
  if (any || pause <= Duration::zero()) return any;
  bell_.await_more_than(bell_before, pause);
  return false;
}

void QueueInbox::release(const Revision& revision) {
  for (ServedStream& client : clients_) client.release(revision);
}

}  // namespace farside::kv_baselines
