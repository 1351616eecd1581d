// repeated.h — what the reply to a change says when the change was asked for twice.
#pragma once

#include "kv/protocol/requests.h"

namespace farside::kv {

/// A server that finds a repeated change done answers so, unless it has forgotten the change's session since, cannot
/// write to its journal or standby any more, or has lost a copy that it must have: then it answers `barred`,
/// `unwritable` or `too_few_copies`, as of what was never done.
/// Returns the reply with `unknown` in place of these, so that the change is neither made once more, under a later
/// timestamp, above what others have written meanwhile, nor taken for one that will not be done. Other replies, and
/// bytes that are none, are returned as they are.
[[nodiscard]] Message reply_to_repeated(Message reply);

}  // namespace farside::kv
