#include "kv/service/other_seat.h"

#include <utility>

#include "farside/base/error.h"
#include "farside/base/log.h"

#include "base/backoff.h"
#include "kv/protocol/time_limits.h"
#include "kv/service/server_link.h"

namespace farside::kv {

OtherSeat::OtherSeat(const net::Secret& secret, std::function<std::string()> address, Welcome self)
    : secret_(secret),
      address_(std::move(address)),
      self_(std::move(self)),
      thread_([this](const std::stop_token& stop) { ask_again_and_again(stop); }) {}

std::optional<OtherSeat::Waiting> OtherSeat::waiting() const {
  const MutexLock lock(mutex_);
  return waiting_;
}

void OtherSeat::ask_again_and_again(const std::stop_token& stop) {
  for (Backoff<Duration> times(time_limits::kBetweenSeeks, time_limits::kMaxBetweenLooksAtSeat);
       !stop.stop_requested();) {
    const auto answer = ask();
    MutexLock lock(mutex_);
    waiting_ = answer;
    (void)ends_.wait_for(lock, stop, times.next(), [] { return false; });
  }
}

std::optional<OtherSeat::Waiting> OtherSeat::ask() const {
  try {
    const ServerLink link(address_(), secret_, net::SetupClock::now() + time_limits::kConnect);
    const Welcome& other = link.welcome();
    if (other.self == self_.self && other.seat != self_.seat && other.waits)
      return Waiting{other.claim, other.incarnation};
  } catch (const Error& error) {
    log::debug("no process in the other seat of server " + std::to_string(self_.self) + " yet: " + error.what());
  }
  return std::nullopt;
}

}  // namespace farside::kv
