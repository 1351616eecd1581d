#include "bench/comm/farside/signals.h"

namespace farside::bench {

namespace {

// Words of each rank, a line each.
constexpr std::uint64_t kLineBytes = 64;
constexpr std::uint64_t kTurn = 0;
constexpr std::uint64_t kAnswer = 1;  ///< to the last of the messages
constexpr std::uint64_t kSteps = 2;   ///< of the barrier, from here on
constexpr std::uint64_t kWords = kSteps + 32;

}  // namespace

Signals::Signals(CommSeat& seat)
    : seat_(seat),
      words_(seat.team->allocate("words", kWords * kLineBytes)),
      data_(seat.team->allocate("data", kLargestBytes)),
      handlers_channel_(seat.comm.open_channel()),
      messages_(seat.comm, {[this](comm::Messages::Call& call) { handle(call); }}) {}

void Signals::offer(Work& work) {
  work.together("to-and-fro", [this](std::uint64_t bytes, std::uint64_t rounds) { to_and_fro(bytes, rounds); });
  work.together("barrier-of-messages", [this](std::uint64_t, std::uint64_t rounds) { barrier(rounds); });
  work.alone("message-to-and-fro", [this](std::uint64_t, std::uint64_t rounds) { message(rounds, true); });
  work.alone("message-stream", [this](std::uint64_t, std::uint64_t rounds) { message_stream(rounds); });
}

RemoteWord<ControlWord> Signals::word_of(team::Rank rank, std::uint64_t which) const {
  return words_->of(rank).word<ControlWord>(which * kLineBytes);
}

void Signals::set(team::Rank rank, std::uint64_t which, std::uint64_t value) {
  static_cast<void>(seat_.comm.notify(*seat_.channel, comm::SetWord{word_of(rank, which), value}));
}

// A round is one way. Ranks 0 and 1 take turns: who does not send waits.
void Signals::to_and_fro(std::uint64_t bytes, std::uint64_t rounds) {
  if (seat_.rank() > 1) return;
  const team::Rank other = 1 - seat_.rank();
  const LocalSpan from(seat_.source.data(), bytes);
  for (; rounds != 0; --rounds) {
    if (++turns_ % 2 == seat_.rank()) {
      const comm::SetWord notice{word_of(other, kTurn), turns_};
      static_cast<void>(seat_.comm.put(*seat_.channel, data_->of(other).span(0, bytes), from, notice));
    } else {
      seat_.wait_for<ControlWord>(*words_, {"the turn", other, kTurn * kLineBytes, turns_}, seat_.deadline());
    }
  }
}

// By dissemination: in step k each tells the one 2^k further, and waits for the one 2^k before it.
void Signals::barrier(std::uint64_t rounds) {
  for (; rounds != 0; --rounds) {
    ++barriers_;
    for (team::Rank step = 0; (1U << step) < seat_.size(); ++step) {
      const team::Rank distance = 1U << step;
      set((seat_.rank() + distance) % seat_.size(), kSteps + step, barriers_);
      const team::Rank before = (seat_.rank() + seat_.size() - distance) % seat_.size();
      const AwaitedWord arrival{"the step of a barrier", before, (kSteps + step) * kLineBytes, barriers_};
      seat_.wait_for<ControlWord>(*words_, arrival, seat_.deadline());
    }
  }
}

// An active message that is sent on to the other `hops` times. Its handlers are run by the service threads.
void Signals::message(std::uint64_t hops, bool wants_answer) {
  if (wants_answer) ++answers_;
  const comm::Messages::Message message{.words = {hops - 1, wants_answer ? answers_ : 0}};
  check(messages_.send(*seat_.channel, 1, message, seat_.deadline()), "message");
  const AwaitedWord answer{"the answer to a message", 1, kAnswer * kLineBytes, answers_};
  const Deadline deadline = seat_.team->fabric().in(std::chrono::minutes(1 + hops / 256));  // one wait for all hops
  if (wants_answer) seat_.wait_for<ControlWord>(*words_, answer, deadline);
}

void Signals::message_stream(std::uint64_t rounds) {
  for (; rounds > 1; --rounds) message(1, false);
  message(1, true);
}

void Signals::handle(comm::Messages::Call& call) {
  const auto [hops, answer, a, b, c] = call.words();
  if (hops > 0) return check(call.reply({.words = {hops - 1, answer}}), "reply");
  if (answer != 0) {
    static_cast<void>(seat_.comm.notify(*handlers_channel_, comm::SetWord{word_of(0, kAnswer), answer}));
  }
}

}  // namespace farside::bench
