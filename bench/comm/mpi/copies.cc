#include "bench/comm/mpi/copies.h"

namespace farside::bench {

namespace {

constexpr int kTarget = 1;
constexpr MPI_Aint kFlag = 0;
constexpr MPI_Aint kData = 4096;

}  // namespace

MpiCopies::MpiCopies() {
  void* base = nullptr;
  MPI_Win_allocate(static_cast<MPI_Aint>(kData + kLargestBytes), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window_);
  MPI_Win_lock_all(MPI_MODE_NOCHECK, window_);
}

MpiCopies::~MpiCopies() {
  MPI_Win_unlock_all(window_);
  MPI_Win_free(&window_);
}

void MpiCopies::offer(Work& work) {
  work.alone("put", [this](std::uint64_t bytes, std::uint64_t rounds) {
    for (; rounds != 0; --rounds) {
      issue(kTarget, bytes);
      flush(kTarget);
    }
  });
  work.alone("issue", [this](std::uint64_t bytes, std::uint64_t rounds) {
    for (; rounds != 0; --rounds) issue(kTarget, bytes);
    flush(kTarget);
  });
  work.alone("get", [this](std::uint64_t bytes, std::uint64_t rounds) {
    const int count = static_cast<int>(bytes);
    for (; rounds != 0; --rounds) {
      MPI_Get(source_.data(), count, MPI_BYTE, kTarget, kData, count, MPI_BYTE, window_);
      flush(kTarget);
    }
  });
  work.alone("put+signal", [this](std::uint64_t bytes, std::uint64_t rounds) {
    for (; rounds != 0; --rounds) {
      put_and_tell(bytes, MPI_REPLACE);
      flush(kTarget);
    }
  });
  work.alone("put+count", [this](std::uint64_t bytes, std::uint64_t rounds) {
    for (; rounds != 0; --rounds) {
      put_and_tell(bytes, MPI_SUM);
      flush(kTarget);
    }
  });
  work.alone("issue+count", [this](std::uint64_t bytes, std::uint64_t rounds) {
    for (; rounds != 0; --rounds) put_and_tell(bytes, MPI_SUM);
    flush(kTarget);
  });
  work.alone("fetch_add", [this](std::uint64_t, std::uint64_t rounds) {
    const std::uint64_t one = 1;
    fetch_add(rounds, MPI_UINT64_T, &one);
  });
  work.alone("fetch_add_double", [this](std::uint64_t, std::uint64_t rounds) {
    const double one = 1;
    fetch_add(rounds, MPI_DOUBLE, &one);
  });
}

void MpiCopies::issue(int target, std::uint64_t bytes) {
  const int count = static_cast<int>(bytes);
  MPI_Put(source_.data(), count, MPI_BYTE, target, kData, count, MPI_BYTE, window_);
}

void MpiCopies::put_and_tell(std::uint64_t bytes, MPI_Op how) {
  static constexpr std::uint64_t kOne = 1;
  issue(kTarget, bytes);
  flush(kTarget);
  MPI_Accumulate(&kOne, 1, MPI_UINT64_T, kTarget, kFlag, 1, MPI_UINT64_T, how, window_);
}

void MpiCopies::fetch_add(std::uint64_t rounds, MPI_Datatype type, const void* one) {
  std::uint64_t old = 0;  // of as many bytes as either type
  for (; rounds != 0; --rounds) {
    MPI_Fetch_and_op(one, &old, type, kTarget, kFlag, MPI_SUM, window_);
    flush(kTarget);
  }
}

}  // namespace farside::bench
