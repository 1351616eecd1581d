// copies.h — what rank 0 does to the memory of rank 1, which sleeps.
#pragma once

#include "bench/comm/farside/seat.h"

namespace farside::bench {

class Copies {
 public:
  /// Collective.
  explicit Copies(CommSeat& seat);
  void offer(Work& work);

 private:
  [[nodiscard]] RemoteSpan target(std::uint64_t bytes) const;
  [[nodiscard]] RemoteWord<AtomicWord> count() const;
  template <class NoticeOfRound>
  void put(std::uint64_t bytes, std::uint64_t rounds, NoticeOfRound notice);
  template <class NoticeOfRound>
  void issue(std::uint64_t bytes, std::uint64_t rounds, NoticeOfRound notice);
  void get(std::uint64_t bytes, std::uint64_t rounds);
  void write_and_flush(std::uint64_t bytes, std::uint64_t rounds);
  template <class T>
  void fetch_add(std::uint64_t rounds);

  CommSeat& seat_;
  std::unique_ptr<team::SymmetricRegion> memory_;
  std::uint64_t signals_ = 0;
};

}  // namespace farside::bench
