// copies.h — MPI's one-sided operations: what rank 0 does to the memory of rank 1, which sleeps.
#pragma once

#include <mpi.h>

#include "bench/comm/amounts.h"

namespace farside::bench {

class MpiCopies {
 public:
  /// Collective.
  MpiCopies();
  ~MpiCopies();
  MpiCopies(const MpiCopies&) = delete;
  MpiCopies& operator=(const MpiCopies&) = delete;

  void offer(Work& work);
  /// Issues one, not flushed.
  void issue(int target, std::uint64_t bytes);
  void flush(int target) { MPI_Win_flush(target, window_); }

 private:
  void put_and_tell(std::uint64_t bytes, MPI_Op how);
  void fetch_add(std::uint64_t rounds, MPI_Datatype type, const void* one);

  MPI_Win window_ = MPI_WIN_NULL;
  std::vector<std::byte> source_ = std::vector<std::byte>(kLargestBytes, std::byte{1});
};

}  // namespace farside::bench
