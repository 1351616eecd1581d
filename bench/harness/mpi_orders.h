// mpi_orders.h — how rank 0 of a contender that uses MPI tells the others what to do. Header only: the harness itself
// is built without MPI.
#pragma once

#include <mpi.h>
#include <unistd.h>

#include "bench/harness/work.h"

namespace farside::bench {

/// What rank 0 says, at all ranks. Those who wait sleep: MPI itself would keep a core busy.
inline Command agree(Command command) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibcast(&command, sizeof command, MPI_BYTE, 0, MPI_COMM_WORLD, &request);
  for (int done = 0; done == 0;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done == 0) ::usleep(4'000);
  }
  return command;
}

/// The main loop of all ranks, until rank 0's input ends.
inline void serve(const Work& work) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) {
    work.answer_questions([](const Command& command) { static_cast<void>(agree(command)); });
  } else {
    while (work.obey(agree({}))) {
    }
  }
}

}  // namespace farside::bench
