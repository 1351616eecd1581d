// farside's comm, on the fabric that FARSIDE_FABRIC names: a job of `farside run`.
#include "bench/comm/farside/copies.h"
#include "bench/comm/farside/meetings.h"
#include "bench/comm/farside/orders.h"
#include "bench/comm/farside/signals.h"
#include "bench/harness/contend.h"

namespace farside::bench {
namespace {

void run() {
  CommSeat seat;
  Orders orders(*seat.team, *seat.channel);
  Copies copies(seat);
  Meetings meetings(seat);
  Signals signals(seat);
  Work work;
  copies.offer(work);
  meetings.offer(work);
  signals.offer(work);
  if (seat.rank() == 0) {
    work.answer_questions([&](const Command& command) { orders.give(command); });
  } else {
    while (work.obey(orders.next())) {
    }
  }
  seat.leave();
}

}  // namespace
}  // namespace farside::bench

int main() { return farside::bench::contend(farside::bench::run); }
