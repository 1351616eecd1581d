#include "team/seat_keeper.h"

#include <utility>

#include "farside/base/error.h"
#include "farside/base/log.h"

#include "base/backoff.h"
#include "base/signals_held.h"
#include "base/wire.h"
#include "team/time_limits.h"

namespace farside::team {

using net::FrameKind;

SeatKeeper::SeatKeeper(CoordinatorFinder& finder, const net::Secret& secret, std::uint32_t rank, std::size_t body_limit,
                       std::function<Seat()> seat, Answered answered)
    : finder_(finder),
      secret_(secret),
      rank_(rank),
      body_limit_(body_limit),
      seat_(std::move(seat)),
      answered_(std::move(answered)),
      thread_(start_thread([this] { run(); })) {}

SeatKeeper::~SeatKeeper() {
  {
    const MutexLock lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void SeatKeeper::begin() {
  const MutexLock lock(mutex_);
  wants_ = true;
  changed_.notify_all();
}

void SeatKeeper::end() {
  const MutexLock lock(mutex_);
  wants_ = false;
  changed_.notify_all();
}

// Waits until it is. False: this ends.
bool SeatKeeper::is_wanted() {
  MutexLock lock(mutex_);
  changed_.wait(lock, [this]() REQUIRES(mutex_) { return wants_ || ends_; });
  return !ends_;
}

// Also when there was an answer: if it is of no use, the next one is asked for after this.
void SeatKeeper::pause(std::chrono::milliseconds duration) {
  MutexLock lock(mutex_);
  (void)changed_.wait_for(lock, duration, [this]() REQUIRES(mutex_) { return ends_; });
}

void SeatKeeper::run() {
  const Backoff first(time_limits::kFirstPauseToKeep, time_limits::kMaxPauseToKeep);
  bool has_warned = false;
  for (Backoff backoff = first; is_wanted();) {
    try {
      if (ask()) {
        backoff = first;
        has_warned = false;
      } else if (!std::exchange(has_warned, true)) {
        log::warn("the coordinator at " + finder_.text() +
                  " is of another team, or has lost decisions: this process goes on without it; end the pool on this " +
                  "machine to join the other team");
      }
    } catch (const Error&) {  // none is there, or it does not answer: that is known
    }
    pause(backoff.next());
  }
}

bool SeatKeeper::ask() {
  const net::Introduced what{"keep the seat at", finder_.find()};
  const auto deadline = net::SetupClock::now() + time_limits::kKeepSeat;
  Fd socket = net::connect_to(what.address, deadline);
  net::Session session =
      net::shake_hands(socket, what, secret_, rank_, body_limit_, deadline, net::ClaimPurpose::keep_seat);
  const Seat seat = seat_();
  const std::string fields =
      Encoder().number(seat.team).number(seat.generation).number(seat.incarnation).number(seat.epoch).take();
  net::write_all(socket, session.seal(FrameKind::keep, fields), deadline);
  net::Frame first = net::read_frame(socket, what, session, body_limit_, deadline);
  if (first.kind == FrameKind::unknown) return false;
  end();  // first: the answer may have it begin again
  answered_({std::move(socket), session, std::move(first)});
  return true;
}

}  // namespace farside::team
