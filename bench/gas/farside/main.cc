// farside's global arrays, on the fabric that FARSIDE_FABRIC names: a job of `farside run`.
#include "farside/comm/collectives.h"

#include "bench/gas/farside/elements.h"
#include "bench/gas/farside/moves.h"
#include "bench/gas/farside/transfers.h"
#include "bench/harness/contend.h"

namespace farside::bench {
namespace {

void run() {
  GasSeat seat;
  Transfers transfers(seat);
  Moves moves(seat);
  Elements elements(seat);
  comm::Collectives collectives(seat.comm);
  Work work;
  transfers.offer(work);
  moves.offer(work);
  elements.offer(work);

  // Rank 0 may be silent for as long as the other contenders take.
  const auto share = [&](Command command) {
    const auto first = [](const Command& of_rank_0, const Command& /*other*/) { return of_rank_0; };
    const Deadline deadline = seat.team->fabric().in(std::chrono::hours(1));
    check(collectives.all_reduce(*seat.channel, std::span(&command, 1), deadline, first), "sharing a command");
    return command;
  };
  if (seat.rank() == 0) {
    work.answer_questions([&](const Command& command) { (void)share(command); });
  } else {
    while (work.obey(share({}))) {
    }
  }
  seat.leave();
}

}  // namespace
}  // namespace farside::bench

int main() { return farside::bench::contend(farside::bench::run); }
