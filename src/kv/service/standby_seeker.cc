#include "kv/service/standby_seeker.h"

#include <utility>

#include "farside/base/error.h"
#include "farside/base/log.h"

#include "kv/protocol/time_limits.h"

namespace farside::kv {

StandbySeeker::StandbySeeker(Fabric& fabric, const net::Secret& secret, std::function<std::string()> address,
                             Welcome self, IsDead is_dead)
    : fabric_(fabric),
      secret_(secret),
      address_(std::move(address)),
      self_(std::move(self)),
      is_dead_(std::move(is_dead)),
      thread_([this](const std::stop_token& stop) { seek_when_wanted(stop); }) {}

std::optional<StandbySeeker::Found> StandbySeeker::find() {
  const MutexLock lock(mutex_);
  if (found_) {
    is_wanted_ = false;
    return std::exchange(found_, std::nullopt);
  }
  if (!std::exchange(is_wanted_, true)) changed_.notify_all();
  return std::nullopt;
}

void StandbySeeker::seek_when_wanted(const std::stop_token& stop) {
  MutexLock lock(mutex_);
  const auto is_wanted = [this]() REQUIRES(mutex_) { return is_wanted_ && !found_; };
  while (changed_.wait(lock, stop, is_wanted) && !stop.stop_requested()) {
    lock.unlock();
    std::optional<Found> found;
    try {
      found = seek();
    } catch (const Error& error) {
      log::debug("no standby of server " + std::to_string(self_.self) + " yet: " + error.what());
    }
    lock.lock();
    if (found) {
      found_ = std::move(found);
    } else {
      (void)changed_.wait_for(lock, stop, time_limits::kBetweenSeeks, [] { return false; });
    }
  }
}

// One that is dead, and goes on, may have lost its access to this process: joining it would give that back.
StandbySeeker::Found StandbySeeker::seek() const {
  const auto deadline = net::SetupClock::now() + time_limits::kConnect;
  const std::string address = address_();
  auto link = std::make_unique<ServerLink>(address, secret_, deadline);
  const Welcome& welcome = link->welcome();
  if (welcome.self != self_.self || welcome.seat == self_.seat || !welcome.has_nothing) {
    throw Error({"teach", "the server at " + address, "it is no standby that has nothing", ""});
  }
  if (is_dead_(welcome.incarnation)) throw Error({"teach", "the server at " + address, "it was declared dead", ""});
  link->join(fabric_, *fabric_.open_channel(), false, deadline);
  auto ring = link->ship(self_.incarnation, deadline);
  return {std::move(link), std::move(ring), address};
}

}  // namespace farside::kv
