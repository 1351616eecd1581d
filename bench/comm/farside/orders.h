// orders.h — how rank 0 tells the others what to do.
//
//   order    at each rank but 0   number (8) | Command     the newest order; its number is written last
//   taken    at rank 0            a line for each rank     the number of the last order that the rank has copied
//
// An order is written when every rank has taken the one before: an operation that needs no other rank may have ended at
// rank 0 while another rank has not yet looked at its order.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

#include "farside/team/team.h"

#include "bench/harness/work.h"

namespace farside::bench {

class Orders {
 public:
  /// Collective. Both outlive it.
  Orders(team::Team& team, Channel& channel)
      : team_(team), channel_(channel), words_(team.allocate("orders", kTaken + kLineBytes * team.size())) {}

  /// By rank 0. Waits for at most a minute for each rank to take the order before.
  void give(const Command& command) {
    for (team::Rank rank = 1; rank < team_.size(); ++rank) {
      wait_for(taken_offset(rank), number_, rank, std::chrono::minutes(1), "to take its order");
    }
    ++number_;
    for (team::Rank rank = 1; rank < team_.size(); ++rank) {
      const RemoteRegion& other = words_->of(rank);
      Command copy = command;
      const Deadline deadline = team_.fabric().in(std::chrono::minutes(1));
      Outcome told = channel_.write(other.span(kCommand, sizeof copy), LocalSpan(copy), deadline);
      if (told == Outcome::done) told = channel_.write_signal(other.word<ControlWord>(kNumber), number_, deadline);
      expect(told, "telling", rank, "what to do");
    }
  }

  /// By the others: each order once, in turn. Rank 0 may be silent for as long as the other contenders take.
  [[nodiscard]] Command next() {
    wait_for(kNumber, ++number_, 0, std::chrono::hours(1), "to give an order");
    Command command{};
    words_->local().copy_out(kCommand, std::as_writable_bytes(std::span(&command, 1)));
    const auto taken = words_->of(0).word<ControlWord>(taken_offset(team_.rank()));
    expect(channel_.write_signal(taken, number_, team_.fabric().in(std::chrono::minutes(1))), "telling", 0,
           "that its order was taken");
    return command;
  }

 private:
  static constexpr std::uint64_t kLineBytes = 64;
  static constexpr std::uint64_t kNumber = 0;
  static constexpr std::uint64_t kCommand = 8;
  static constexpr std::uint64_t kTaken = kLineBytes;
  static_assert(kCommand + sizeof(Command) <= kTaken);

  [[nodiscard]] static std::uint64_t taken_offset(team::Rank rank) { return kTaken + kLineBytes * rank; }

  void wait_for(std::uint64_t offset, std::uint64_t number, team::Rank whose, Duration limit, const char* what) {
    const auto has_come = [number](std::uint64_t now) { return now >= number; };
    const auto word = words_->local().word<ControlWord>(offset);
    const Outcome waited = channel_.wait_until(words_->local(), word, has_come, team_.fabric().in(limit), {&whose, 1});
    expect(waited, "waiting for", whose, what);
    channel_.local_fence();
  }
  static void expect(Outcome outcome, const char* tried, team::Rank whose, const char* what) {
    if (outcome == Outcome::done) return;
    throw std::runtime_error(std::string(tried) + " rank " + std::to_string(whose) + " " + what + ": " +
                             std::string(to_string(outcome)));
  }

  team::Team& team_;
  Channel& channel_;
  std::unique_ptr<team::SymmetricRegion> words_;
  std::uint64_t number_ = 0;
};

}  // namespace farside::bench
