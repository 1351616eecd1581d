// reply_text.h — replies as people read them, in the manner of redis-cli.
#pragma once

#include <string>
#include <string_view>

namespace farside::kv {

/// The first reply of `replies`, which is taken away. It must be whole, as RespReply writes it.
[[nodiscard]] std::string take_reply_text(std::string_view& replies);

}  // namespace farside::kv
