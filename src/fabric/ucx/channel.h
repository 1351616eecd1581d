// channel.h — what one thread posts through to peers on other hosts.
#pragma once

#include "farside/fabric/channel.h"
#include "farside/fabric/region.h"
#include "farside/fabric/time.h"

namespace farside {

class UcxChannel {
 public:
  virtual ~UcxChannel() = default;
  UcxChannel(const UcxChannel&) = delete;
  UcxChannel& operator=(const UcxChannel&) = delete;

  /// `operation.region->access()` must come from this engine's attach. Never blocks; what can complete at once does.
  virtual void post(const Operation& operation, Completion& completion) = 0;
  /// As Channel::finish. When the deadline passes, the endpoints involved are closed, and with them everything else
  /// this channel has under way to the same peers ends in timed_out; they are made anew by the next operation.
  virtual void finish(Completion& completion, Deadline deadline) = 0;
  /// As Channel::fence and Channel::flush.
  virtual Outcome fence(Deadline deadline) = 0;
  virtual Outcome flush(PeerId peer, Deadline deadline) = 0;

 protected:
  UcxChannel() = default;
};

}  // namespace farside
