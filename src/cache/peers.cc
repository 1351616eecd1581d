#include "cache/peers.h"

#include <algorithm>
#include <string>
#include <utility>

#include "farside/base/log.h"

#include "base/assert.h"

namespace farside::cache {

namespace {

using team::Rank;

std::string named(Rank rank) { return "rank " + std::to_string(rank); }

}  // namespace

bool Peers::reachable(Rank rank) const {
  if (rank >= team_.size() || !team_.alive(rank)) return false;
  const MutexLock lock(mutex_);
  return !silent_[rank].pauses || team_.fabric().now() >= silent_[rank].until;
}

Outcome Peers::read(Channel& channel, LocalSpan into, Rank from, std::uint64_t offset, Deadline deadline) {
  return ask(from, deadline,
             [&](Deadline soon) {
               return Result<std::uint64_t>{channel.read(into, region_.of(from).span(offset, into.bytes()), soon), 0};
             })
      .status;
}

Outcome Peers::read_each(Channel& channel, std::span<std::uint64_t> into, Rank from, std::uint64_t offset,
                         Deadline deadline) {
  return ask(from, deadline,
             [&](Deadline soon) {
               Batch batch(channel);
               for (std::size_t i = 0; i < into.size(); ++i) {
                 batch.read(LocalSpan(into[i]), region_.of(from).span(offset + 8 * i, 8));
               }
               return Result<std::uint64_t>{batch.wait(soon), 0};
             })
      .status;
}

Result<std::uint64_t> Peers::load(Channel& channel, Rank from, std::uint64_t offset, Deadline deadline) {
  return ask(from, deadline,
             [&](Deadline soon) { return channel.load(region_.of(from).word<AtomicWord>(offset), soon); });
}

Result<std::uint64_t> Peers::swap(Channel& channel, Rank at, std::uint64_t offset, std::uint64_t value,
                                  Deadline deadline) {
  return ask(at, deadline,
             [&](Deadline soon) { return channel.swap(region_.of(at).word<AtomicWord>(offset), value, soon); });
}

Result<std::uint64_t> Peers::compare_swap(Channel& channel, Rank at, std::uint64_t offset, std::uint64_t expected,
                                          std::uint64_t desired, Deadline deadline) {
  return ask(at, deadline, [&](Deadline soon) {
    return channel.compare_swap(region_.of(at).word<AtomicWord>(offset), expected, desired, soon);
  });
}

template <class Operation>
Result<std::uint64_t> Peers::ask(Rank rank, Deadline deadline, Operation&& operation) {
  if (!may_try(rank)) return {Outcome::timed_out, 0};
  const Deadline soon = team_.fabric().in(cache::time_limits::kPeer);
  const Result<std::uint64_t> answer = operation(deadline.at < soon.at ? deadline : soon);
  // A rank that was not given the time has not been silent.
  const bool is_silent = answer.status == Outcome::timed_out && soon.at <= deadline.at;
  if (is_silent || answer.status == Outcome::link_lost) note_silence(rank);
  if (answer.status == Outcome::done) note_answer(rank);
  return answer;
}

// When a pause is over, one comes and tries; the others stay away as long as that may take.
bool Peers::may_try(Rank rank) {
  const MutexLock lock(mutex_);
  assert_that(rank < silent_.size(), "an operation is for a node of the pool");
  Silence& silence = silent_[rank];
  if (!silence.pauses) return true;
  const Time now = team_.fabric().now();
  if (now < silence.until) return false;
  silence.until = now + cache::time_limits::kPeer;
  return true;
}

void Peers::note_answer(Rank rank) {
  const MutexLock lock(mutex_);
  if (std::exchange(silent_[rank].pauses, std::nullopt)) log::warn(named(rank) + " answers again");
}

// Requests of the same time count as one.
void Peers::note_silence(Rank rank) {
  const MutexLock lock(mutex_);
  Silence& silence = silent_[rank];
  const Time now = team_.fabric().now();
  if (!silence.pauses) {
    log::warn(named(rank) + " does not answer; retried with exponential backoff");
    silence.pauses.emplace(cache::time_limits::kPeer, cache::time_limits::kMaxPeerPause);
  } else if (now < silence.until) {
    return;
  }
  silence.until = now + silence.pauses->next();
}

}  // namespace farside::cache
