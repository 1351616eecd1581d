// signals.h — what ranks tell each other: one way, and barriers made of that; active messages.
#pragma once

#include "farside/comm/messages.h"

#include "bench/comm/farside/seat.h"

namespace farside::bench {

class Signals {
 public:
  /// Collective.
  explicit Signals(CommSeat& seat);
  void offer(Work& work);

 private:
  [[nodiscard]] RemoteWord<ControlWord> word_of(team::Rank rank, std::uint64_t which) const;
  void set(team::Rank rank, std::uint64_t which, std::uint64_t value);

  void to_and_fro(std::uint64_t bytes, std::uint64_t rounds);
  void barrier(std::uint64_t rounds);
  void message(std::uint64_t hops, bool wants_answer);
  void message_stream(std::uint64_t rounds);
  void handle(comm::Messages::Call& call);

  CommSeat& seat_;
  std::unique_ptr<team::SymmetricRegion> words_;
  std::unique_ptr<team::SymmetricRegion> data_;
  std::uint64_t turns_ = 0;
  std::uint64_t barriers_ = 0;
  std::uint64_t answers_ = 0;
  std::unique_ptr<Channel> handlers_channel_;  ///< for the service thread
  comm::Messages messages_;
};

}  // namespace farside::bench
