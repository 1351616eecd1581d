// farside's comm, on the fabric that FARSIDE_FABRIC names: a job of `farside run`.
#include "bench/comm/farside/copies.h"
#include "bench/comm/farside/meetings.h"
#include "bench/comm/farside/signals.h"
#include "bench/harness/contend.h"

namespace farside::bench {
namespace {

/// How rank 0 tells the others what to do.
class Orders {
 public:
  explicit Orders(CommSeat& seat) : seat_(seat), words_(seat.team->allocate("orders", kBytes)) {}

  void give(const Command& command) {
    ++number_;
    for (Rank rank = 1; rank < seat_.size(); ++rank) {
      const RemoteRegion& other = words_->of(rank);
      Command copy = command;
      check(
          seat_.channel->write(other.span(kCommand, sizeof copy), LocalSpan(copy), seat_.patience()) == Outcome::done &&
              seat_.channel->write_signal(other.word<ControlWord>(kNumber), number_, seat_.patience()) == Outcome::done,
          "telling the others");
    }
  }

  [[nodiscard]] Command next() {
    // Rank 0 may be silent for as long as the other contenders take.
    const Rank master = 0;
    const AwaitedWord order{"an order", master, kNumber, ++number_};
    seat_.wait_for<ControlWord>(*words_, order, seat_.team->fabric().in(std::chrono::hours(1)), {&master, 1});
    seat_.channel->local_fence();
    Command command{};
    words_->local().copy_out(kCommand, std::as_writable_bytes(std::span(&command, 1)));
    return command;
  }

 private:
  static constexpr std::uint64_t kNumber = 0;  ///< written last
  static constexpr std::uint64_t kCommand = 8;
  static constexpr std::uint64_t kBytes = kCommand + sizeof(Command);

  CommSeat& seat_;
  std::unique_ptr<SymmetricRegion> words_;
  std::uint64_t number_ = 0;
};

void run() {
  CommSeat seat;
  Orders orders(seat);
  Copies copies(seat);
  Meetings meetings(seat);
  Signals signals(seat);
  Work work;
  copies.offer(work);
  meetings.offer(work);
  signals.offer(work);
  if (seat.rank() == 0) {
    work.answer_questions([&](const Command& command) { orders.give(command); });
  } else {
    while (work.obey(orders.next())) {
    }
  }
  seat.leave();
}

}  // namespace
}  // namespace farside::bench

int main() { return farside::bench::contend(farside::bench::run); }
