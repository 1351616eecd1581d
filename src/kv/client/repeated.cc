#include "kv/client/repeated.h"

#include <utility>
#include <vector>

#include "kv/protocol/messages.h"

namespace farside::kv {

Message reply_to_repeated(Message bytes) {
  const auto reply = Reply::decode(bytes);
  if (!reply) return bytes;
  if (reply->kind == RequestKind::several) {
    std::vector<Message> parts;
    for (const MessageView part : reply->parts) parts.push_back(reply_to_repeated({part.begin(), part.end()}));
    Reply together{.kind = RequestKind::several};
    together.parts.assign(parts.begin(), parts.end());
    return together.encode();
  }
  const bool is_write = reply->kind == RequestKind::put || reply->kind == RequestKind::prepare;
  const bool may_be_done =
      reply->answer == Answer::barred || reply->answer == Answer::unwritable || reply->answer == Answer::too_few_copies;
  if (!is_write || !may_be_done) return bytes;
  return Reply{.kind = reply->kind, .answer = Answer::unknown}.encode();
}

}  // namespace farside::kv
