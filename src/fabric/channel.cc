#include "farside/fabric/channel.h"

#include <string>

#include "farside/base/error.h"

namespace farside {

std::string_view to_string(Outcome outcome) {
  switch (outcome) {
    case Outcome::done: return "done";
    case Outcome::timed_out: return "timed out";
    case Outcome::link_lost: return "link lost";
    case Outcome::peer_lost: return "peer lost";
  }
  return "unknown";
}

void Channel::refuse_length(std::uint64_t local_bytes, RemoteSpan remote) {
  throw Error({"access region", remote.region->name(),
               "the local buffer has " + std::to_string(local_bytes) + " bytes and the remote range " +
                   std::to_string(remote.bytes),
               ""});
}

void Channel::refuse_word(const Region& waited_in, const Region& of_word) {
  throw UsageError({"wait in region", waited_in.name(), "the word is one of region " + of_word.name(),
                    "wait in the region that the word was taken from"});
}

Batch::~Batch() {
  if (completion_.pending != 0) channel_.finish(completion_, Deadline{});
}

Outcome Batch::wait(Deadline deadline) {
  if (completion_.pending != 0) channel_.finish(completion_, deadline);
  const Outcome outcome = completion_.outcome;
  completion_.outcome = Outcome::done;
  return outcome;
}

}  // namespace farside
