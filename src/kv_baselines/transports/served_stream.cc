#include "kv_baselines/transports/served_stream.h"

namespace farside::kv_baselines {

bool ServedStream::serve(const kv::Inbox::Answer& answer) {
  stream_.flush();
  bool any = false;
  for (bool received = false; !waits_for_room() && !has_ended() && held_.size() < kMaxHeld;) {
    if (const auto request = stream_.take()) {
      kv::Inbox::Said said = answer(*request);
      any = true;
      if (said.reply.empty()) {
        stream_.give_up();
      } else if (said.is_held) {
        held_.push_back(std::move(said.reply));
      } else {
        stream_.send(said.reply);
      }
    } else if (received || !stream_.receive(kAtOnce)) {
      break;
    } else {
      received = any = true;
    }
  }
  return any;
}

void ServedStream::release(const kv::Inbox::Revision& revision) {
  for (kv::Message& reply : held_) stream_.send(revision(std::move(reply)));
  held_.clear();
}

}  // namespace farside::kv_baselines
