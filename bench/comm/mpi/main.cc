// The same by MPI.
#include <array>

#include <mpi.h>

#include "bench/comm/mpi/copies.h"
#include "bench/harness/mpi_orders.h"

namespace farside::bench {
namespace {

/// What ranks tell each other, and what all do together.
class Together {
 public:
  explicit Together(MpiCopies& copies) : copies_(copies) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }

  void offer(Work& work) {
    const auto repeat = [](auto make) {
      return [make](std::uint64_t amount, std::uint64_t rounds) {
        for (; rounds != 0; --rounds) make(amount);
      };
    };
    work.together("barrier", repeat([](std::uint64_t) { MPI_Barrier(MPI_COMM_WORLD); }));
    work.together("begin+wait", repeat([](std::uint64_t) { split_barrier(); }));
    work.together("compute+barriers", [](std::uint64_t, std::uint64_t rounds) { computations_with_barriers(rounds); });
    work.together("barrier-of-messages", repeat([this](std::uint64_t) { barrier_of_messages(); }));
    work.together("all_reduce", repeat([this](std::uint64_t bytes) { all_reduce(bytes); }));
    work.together("phase-by-barrier", repeat([this](std::uint64_t bytes) { phase(bytes); }));
    work.together("to-and-fro", repeat([this](std::uint64_t bytes) { turn(bytes); }));
    work.together("stream", repeat([this](std::uint64_t bytes) { stream(bytes); }));
  }

 private:
  static void split_barrier() {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }

  /// With as many under way as farside has.
  static void computations_with_barriers(std::uint64_t rounds) {
    std::array<MPI_Request, 8> requests{};
    requests.fill(MPI_REQUEST_NULL);
    for (; rounds != 0; --rounds) {
      MPI_Request& request = requests[rounds % requests.size()];
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      MPI_Ibarrier(MPI_COMM_WORLD, &request);
      compute();
    }
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  }

  /// By dissemination: in step k each tells the one 2^k further, and waits for the one 2^k before it.
  void barrier_of_messages() const {
    for (int distance = 1; distance < size_; distance *= 2) {
      const int to = (rank_ + distance) % size_;
      const int from = (rank_ + size_ - distance) % size_;
      MPI_Sendrecv(nullptr, 0, MPI_BYTE, to, 0, nullptr, 0, MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
  }

  void all_reduce(std::uint64_t bytes) {
    MPI_Allreduce(MPI_IN_PLACE, values_.data(), static_cast<int>(bytes / sizeof(double)), MPI_DOUBLE, MPI_SUM,
                  MPI_COMM_WORLD);
  }

  /// Each puts to the next rank, and has what the one before it has put when the phase ends.
  void phase(std::uint64_t bytes) {
    const int next = (rank_ + 1) % size_;
    copies_.issue(next, bytes);
    copies_.flush(next);
    MPI_Barrier(MPI_COMM_WORLD);
  }

  /// One way. Ranks 0 and 1 take turns: who does not send receives.
  void turn(std::uint64_t bytes) {
    const int count = static_cast<int>(bytes);
    if (rank_ > 1) return;
    if (++turns_ % 2 == rank_) {
      MPI_Send(values_.data(), count, MPI_BYTE, 1 - rank_, 0, MPI_COMM_WORLD);
    } else {
      MPI_Recv(values_.data(), count, MPI_BYTE, 1 - rank_, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
  }

  /// Rank 0 sends one after the other.
  void stream(std::uint64_t bytes) {
    const int count = static_cast<int>(bytes);
    if (rank_ == 0) MPI_Send(values_.data(), count, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    if (rank_ == 1) MPI_Recv(values_.data(), count, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }

  MpiCopies& copies_;
  int rank_ = 0;
  int size_ = 0;
  int turns_ = 0;
  std::vector<double> values_ = std::vector<double>(kLargestBytes / sizeof(double));
};

void run() {
  MpiCopies copies;
  Together together(copies);
  Work work;
  copies.offer(work);
  together.offer(work);
  serve(work);
}

}  // namespace
}  // namespace farside::bench

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  farside::bench::run();
  MPI_Finalize();
  return 0;
}
