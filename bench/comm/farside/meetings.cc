#include "bench/comm/farside/meetings.h"

namespace farside::bench {

Meetings::Meetings(CommSeat& seat)
    : seat_(seat),
      barrier_(seat.comm),
      collectives_(seat.comm),
      counter_(seat.comm),
      data_(seat.team->allocate("phases", kLargestBytes)) {}

void Meetings::split_barriers(std::uint64_t rounds) {
  for (; rounds != 0; --rounds) {
    const comm::Barrier::Begun begun = barrier_.begin(*seat_.channel, seat_.deadline());
    check(begun.status, "begin");
    check(barrier_.wait(*seat_.channel, begun.number, seat_.deadline()), "barrier");
  }
}

// As many are under way as there may be, so that a rank which computes more slowly keeps the others waiting the less.
void Meetings::computations_with_barriers(std::uint64_t rounds) {
  std::uint64_t last = 0;
  for (; rounds != 0; --rounds) {
    const comm::Barrier::Begun begun = barrier_.begin(*seat_.channel, seat_.deadline());
    check(begun.status, "begin");
    last = begun.number;
    compute();
  }
  check(barrier_.wait(*seat_.channel, last, seat_.deadline()), "barrier");
}

void Meetings::offer(Work& work) {
  work.together("barrier", [this](std::uint64_t, std::uint64_t rounds) {
    for (; rounds != 0; --rounds) check(barrier_.pass(*seat_.channel, seat_.deadline()), "barrier");
  });
  work.together("begin+wait", [this](std::uint64_t, std::uint64_t rounds) { split_barriers(rounds); });
  work.together("compute+barriers",
                [this](std::uint64_t, std::uint64_t rounds) { computations_with_barriers(rounds); });
  work.together("compute", [](std::uint64_t, std::uint64_t rounds) {
    for (; rounds != 0; --rounds) compute();
  });
  work.together("all_reduce", [this](std::uint64_t bytes, std::uint64_t rounds) { all_reduce(bytes, rounds); });
  work.together("phase-by-count", [this](std::uint64_t bytes, std::uint64_t rounds) { counted_phases(bytes, rounds); });
  work.together("phase-by-barrier", [this](std::uint64_t bytes, std::uint64_t rounds) { met_phases(bytes, rounds); });
}

void Meetings::all_reduce(std::uint64_t bytes, std::uint64_t rounds) {
  const std::span<double> values = std::span(values_).first(bytes / sizeof(double));
  for (; rounds != 0; --rounds) check(collectives_.all_reduce(*seat_.channel, values, seat_.deadline()), "all_reduce");
}

// In a phase each puts to the next rank, and has what the one before it has put when the phase ends.
void Meetings::counted_phases(std::uint64_t bytes, std::uint64_t rounds) {
  const team::Rank next = (seat_.rank() + 1) % seat_.size();
  const team::Rank before = (seat_.rank() + seat_.size() - 1) % seat_.size();
  const LocalSpan from(seat_.source.data(), bytes);
  for (; rounds != 0; --rounds, ++phases_) {
    const comm::ArrivalCounter::Arrival arrival = counter_.at(*seat_.channel, next, phases_, seat_.deadline());
    check(arrival.status, "phase");
    static_cast<void>(seat_.comm.put(*seat_.channel, data_->of(next).span(0, bytes), from, arrival.notice));
    check(counter_.wait(*seat_.channel, phases_, 1, {&before, 1}, seat_.deadline()), "phase");
  }
}

void Meetings::met_phases(std::uint64_t bytes, std::uint64_t rounds) {
  const team::Rank next = (seat_.rank() + 1) % seat_.size();
  const LocalSpan from(seat_.source.data(), bytes);
  for (; rounds != 0; --rounds) {
    static_cast<void>(seat_.comm.put(*seat_.channel, data_->of(next).span(0, bytes), from));
    check(barrier_.pass(*seat_.channel, seat_.deadline()), "phase");
  }
}

}  // namespace farside::bench
