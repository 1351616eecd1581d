// The same by MPI: MPI_Put and flush, put and flush and a flag, MPI_Barrier, MPI_Ibarrier.
#include <cstddef>
#include <vector>

#include <mpi.h>
#include <unistd.h>

#include "bench/comm/work.h"

namespace farside::bench {
namespace {

constexpr int kTarget = 1;
constexpr MPI_Aint kFlag = 0;
constexpr MPI_Aint kData = 4096;

class Job {
 public:
  Job() : source_(kLargestBytes, std::byte{1}) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    void* base = nullptr;
    MPI_Win_allocate(static_cast<MPI_Aint>(kData + kLargestBytes), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window_);
  }
  ~Job() { MPI_Win_free(&window_); }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  void run() {
    if (rank_ != 0) {
      while (obey()) {
      }
      return;
    }
    MPI_Win_lock_all(MPI_MODE_NOCHECK, window_);
    answer_questions([this](Operation operation, std::uint64_t bytes,
                            std::uint64_t rounds) { alone(operation, static_cast<int>(bytes), rounds); },
                     [this](Command command) { static_cast<void>(agree(command)); },
                     [this](Operation operation) { round(operation); });
    MPI_Win_unlock_all(window_);
  }

 private:
  void alone(Operation operation, int bytes, std::uint64_t rounds) {
    for (; rounds != 0; --rounds) {
      MPI_Put(source_.data(), bytes, MPI_BYTE, kTarget, kData, bytes, MPI_BYTE, window_);
      if (operation == Operation::issue) continue;
      MPI_Win_flush(kTarget, window_);
      if (operation == Operation::put) continue;
      const MPI_Op how = operation == Operation::put_signal ? MPI_REPLACE : MPI_SUM;
      MPI_Accumulate(&kOne, 1, MPI_UINT64_T, kTarget, kFlag, 1, MPI_UINT64_T, how, window_);
      MPI_Win_flush(kTarget, window_);
    }
    if (operation == Operation::issue) MPI_Win_flush(kTarget, window_);
  }

  static void round(Operation operation) {
    if (operation == Operation::barrier) {
      MPI_Barrier(MPI_COMM_WORLD);
      return;
    }
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }

  /// What rank 0 says, at all ranks. Those who wait sleep: MPI itself would keep a core busy.
  static Command agree(Command command) {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ibcast(&command, sizeof command, MPI_BYTE, 0, MPI_COMM_WORLD, &request);
    for (int done = 0; done == 0;) {
      MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      if (done == 0) ::usleep(1'000);
    }
    return command;
  }

  bool obey() {
    const Command command = agree({});
    for (std::uint64_t rounds = command.rounds; rounds != 0; --rounds) round(command.operation);
    return command.operation != Operation::end;
  }

  static constexpr std::uint64_t kOne = 1;

  int rank_ = 0;
  MPI_Win window_ = MPI_WIN_NULL;
  std::vector<std::byte> source_;
};

}  // namespace
}  // namespace farside::bench

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  farside::bench::Job().run();
  MPI_Finalize();
  return 0;
}
