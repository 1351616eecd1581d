#include "far/protocol/slab_returns.h"

#include <chrono>
#include <optional>
#include <utility>

#include "far/time_limits.h"

namespace farside::far {

namespace {

constexpr Duration kBetweenFlushes = std::chrono::microseconds(50);

}  // namespace

void SlabReturns::give_back(const Copy& copy) {
  if (is_silent(copy.node)) {
    const MutexLock lock(mutex_);
    return debts_.push_back(copy);
  }
  ask(copy, take_channel());
}

void SlabReturns::settle(std::span<LentMemory* const> living, Channel& channel) {
  for (LentMemory* node : living) {
    if (!is_silent(node) || !node->answers(channel, fabric_.in(time_limits::kAnswer))) continue;
    const MutexLock lock(mutex_);
    silent_.erase(node);
  }
  std::vector<Copy> debts;
  std::vector<Request> unconfirmed;
  {
    const MutexLock lock(mutex_);
    debts = std::exchange(debts_, {});
    unconfirmed = std::exchange(unconfirmed_, {});
  }
  for (const Copy& debt : debts) {
    if (debt.lives()) give_back(debt);
  }
  for (Request& request : unconfirmed) settle(std::move(request));
}

bool SlabReturns::is_silent(const LentMemory* node) const {
  const MutexLock lock(mutex_);
  return silent_.contains(node) || node->unresponsive();
}

std::unique_ptr<Channel> SlabReturns::take_channel() {
  {
    const MutexLock lock(mutex_);
    if (!idle_.empty()) {
      auto channel = std::move(idle_.back());
      idle_.pop_back();
      return channel;
    }
  }
  return fabric_.open_channel();
}

void SlabReturns::ask(const Copy& copy, std::unique_ptr<Channel> channel) {
  const std::uint64_t takes = copy.node->takes(copy.slab);
  const Outcome given = copy.node->give_back(*channel, copy.slab, fabric_.in(time_limits::kGiveBack));
  const MutexLock lock(mutex_);
  if (given == Outcome::done || given == Outcome::peer_lost) return idle_.push_back(std::move(channel));
  silent_.insert(copy.node);
  unconfirmed_.push_back({copy, takes, std::move(channel)});
}

// A lost node has nothing of this client's any more.
void SlabReturns::settle(Request request) {
  LentMemory& node = *request.copy.node;
  if (node.lost()) return;
  if (is_silent(&node)) return keep(std::move(request));
  const Deadline deadline = fabric_.in(time_limits::kGiveBack);
  const Outcome ended = end(request, deadline);
  if (ended == Outcome::peer_lost && !node.lost()) node.mark_lost();
  if (ended == Outcome::peer_lost) return;
  std::optional<bool> is_ours;
  if (ended == Outcome::done) {
    is_ours = node.is_still_taken(*request.channel, request.copy.slab, request.takes, deadline);
  }
  if (!is_ours) return keep(std::move(request));
  if (*is_ours) return ask(request.copy, std::move(request.channel));
  const MutexLock lock(mutex_);
  idle_.push_back(std::move(request.channel));
}

// Done: it has landed, or never does. The first flush says that it failed.
Outcome SlabReturns::end(const Request& request, Deadline deadline) const {
  for (;;) {
    const Outcome flushed = request.channel->flush(request.copy.node->peer(), deadline);
    if (flushed == Outcome::done || flushed == Outcome::peer_lost || fabric_.now() >= deadline.at) return flushed;
    fabric_.sleep(kBetweenFlushes);
  }
}

void SlabReturns::keep(Request request) {
  const MutexLock lock(mutex_);
  unconfirmed_.push_back(std::move(request));
}

}  // namespace farside::far
