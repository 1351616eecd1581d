#include "kv/transports/served_stream.h"

namespace farside::kv {

bool ServedStream::serve(const Inbox::Answer& answer) {
  stream_.flush();
  bool any = false;
  for (bool received = false; !waits_for_room() && !has_ended();) {
    if (const auto request = stream_.take()) {
      const Message reply = answer(*request);
      any = true;
      if (reply.empty()) {
        stream_.give_up();
      } else {
        stream_.send(reply);
      }
    } else if (received || !stream_.receive(kAtOnce)) {
      break;
    } else {
      received = any = true;
    }
  }
  return any;
}

}  // namespace farside::kv
