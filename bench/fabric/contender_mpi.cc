// The same operations by MPI's one-sided interface, between the two ranks of an MPI job on one machine.
#include <array>
#include <cstddef>
#include <vector>

#include <mpi.h>
#include <unistd.h>

#include "bench/fabric/work.h"

namespace farside::bench {
namespace {

constexpr int kTarget = 1;

class Initiator {
 public:
  explicit Initiator(MPI_Win window) : window_(window), buffer_(kRegionBytes, std::byte{1}) {}

  void run(const Work& work, std::uint64_t rounds) {
    for (; rounds != 0; --rounds) {
      for (std::uint64_t i = 0; i < work.depth; ++i) post(work, work.offset(i));
      MPI_Win_flush(kTarget, window_);
    }
  }

 private:
  void post(const Work& work, std::uint64_t offset) {
    const int bytes = static_cast<int>(work.bytes);
    const auto place = static_cast<MPI_Aint>(offset);
    std::byte* const here = buffer_.data() + offset;
    switch (work.operation) {
      case Operation::read: MPI_Get(here, bytes, MPI_BYTE, kTarget, place, bytes, MPI_BYTE, window_); return;
      case Operation::write: MPI_Put(here, bytes, MPI_BYTE, kTarget, place, bytes, MPI_BYTE, window_); return;
      case Operation::fetch_add: MPI_Fetch_and_op(&kOne, here, MPI_UINT64_T, kTarget, place, MPI_SUM, window_); return;
    }
  }

  static constexpr std::uint64_t kOne = 1;

  MPI_Win window_;
  std::vector<std::byte> buffer_;
};

void initiate(MPI_Win window) {
  Initiator initiator(window);
  MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
  initiator.run({Operation::write, kLargestBytes, kRegionBytes / kLargestBytes}, 1);  // every page is there
  answer_questions([&](const Work& work, std::uint64_t rounds) { initiator.run(work, rounds); });
  MPI_Win_unlock_all(window);
}

/// Sleeps until the initiator has finished: between the ranks of one host its operations need no help.
void be_target() {
  MPI_Request end = MPI_REQUEST_NULL;
  MPI_Ibarrier(MPI_COMM_WORLD, &end);
  for (int ended = 0; ended == 0; ::usleep(10'000)) MPI_Test(&end, &ended, MPI_STATUS_IGNORE);
}

}  // namespace
}  // namespace farside::bench

int main(int argc, char** argv) {
  using namespace farside::bench;
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  void* base = nullptr;
  MPI_Win window = MPI_WIN_NULL;
  MPI_Win_allocate(kRegionBytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
  if (rank == 0) {
    initiate(window);
    MPI_Request end = MPI_REQUEST_NULL;
    MPI_Ibarrier(MPI_COMM_WORLD, &end);
    MPI_Wait(&end, MPI_STATUS_IGNORE);
  } else {
    be_target();
  }
  MPI_Win_free(&window);
  MPI_Finalize();
  return 0;
}
