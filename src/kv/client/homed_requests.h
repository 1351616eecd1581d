// homed_requests.h — requests to whichever of a partition's two servers serves it (homes.h). What the primary has not
// answered when the standby takes its place goes to the standby; that may have it already, as a client may ask twice.
// So it is each time that the partition moves.
//
// Thread safety: one thread at a time.
#pragma once

#include <deque>
#include <vector>

#include "kv/client/homes.h"
#include "kv/mailbox/mailbox.h"

namespace farside::kv {

class HomedRequests final : public Requests {
 public:
  /// `seats`: to seat 0 of each partition, by number, then to seat 1 of each. Both outlive this.
  HomedRequests(Fabric& fabric, Homes& homes, MailboxRequests& seats);

  [[nodiscard]] ServerNumber servers() const override { return homes_.partitions(); }
  Outcome send(ServerNumber partition, std::span<const std::byte> request, Deadline deadline) override;
  Result<Message> receive(ServerNumber partition, Deadline deadline) override;
  Outcome await(ServerNumber partition, Deadline deadline) override;
  [[nodiscard]] bool has_reply(ServerNumber partition) override;
  [[nodiscard]] bool is_loss_final(ServerNumber partition) override;

 private:
  struct Asked {
    Message request;
    bool is_repeated = false;      ///< it may have been done by a server that did not answer
    Outcome sent = Outcome::done;  ///< to where the partition has moved; of one that failed there is no reply
  };
  struct Partition {
    std::uint64_t moves = 0;    ///< that have been followed
    unsigned seat = 0;          ///< that is asked
    bool is_seat_lost = false;  ///< that one
    std::deque<Asked> unanswered{};
  };

  /// The state of the oldest unanswered request.
  struct Came {
    Outcome outcome;
    bool is_trusted;  ///< of a reply
  };

  /// Returns when the reply has come and may be taken, none will come, or the time is up.
  Came wait_for_reply(ServerNumber partition, Deadline deadline);
  [[nodiscard]] ServerNumber seat(ServerNumber partition) const;
  /// Returns `outcome`, and records the loss of that seat if it is peer_lost.
  Outcome from_seat(ServerNumber partition, Outcome outcome);
  /// To the standby, if it serves by now: all that is not answered goes there. True if the partition has moved.
  bool follow(ServerNumber partition, Deadline deadline);
  /// The same, if others have followed before.
  bool catch_up(ServerNumber partition, Deadline deadline);
  /// Waits for the standby to take over. False: it will not, or the time is up.
  bool await_move(ServerNumber partition, Deadline deadline);

  Fabric& fabric_;
  Homes& homes_;
  MailboxRequests& seats_;
  std::vector<Partition> partitions_;
};

}  // namespace farside::kv
