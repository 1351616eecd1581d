#include "comm/protocol/arrivals.h"

#include <algorithm>

#include "farside/base/error.h"

#include "base/assert.h"
#include "base/backoff.h"
#include "comm/time_limits.h"

namespace farside::comm {

namespace {

using namespace std::chrono_literals;

constexpr Duration kFirstPause = 10us;
constexpr Duration kMaxPause = 2ms;

std::uint32_t round_in(std::uint64_t word) { return static_cast<std::uint32_t>(word >> 32U); }
std::uint32_t arrivals_in(std::uint64_t word) { return static_cast<std::uint32_t>(word); }
std::uint64_t packed(std::uint32_t round, std::uint32_t arrivals) { return std::uint64_t{round} << 32U | arrivals; }

/// Rounds wrap around; two that are compared are close to each other.
bool is_later(std::uint32_t round, std::uint32_t than) { return static_cast<std::int32_t>(round - than) > 0; }

[[noreturn]] void refuse(const char* tried, std::uint64_t epoch, const char* why) {
  throw UsageError({tried, "epoch " + std::to_string(epoch), why, "await each epoch once, for all that is sent in it"});
}

}  // namespace

Arrivals::Arrivals(team::Team& team, const std::string& name, const ArrivalRules& rules)
    : team_(team), rules_(rules), words_(team.allocate(name, 8 * kOpen)), seen_(kOpen * team.size()) {}

std::uint64_t Arrivals::place(std::uint64_t epoch) const { return rules_.names_epochs ? epoch % kOpen : 0; }

std::uint32_t Arrivals::round(std::uint64_t epoch) const {
  return rules_.names_epochs ? static_cast<std::uint32_t>(epoch / kOpen) : 0;
}

std::uint32_t& Arrivals::seen_round(team::Rank rank, std::uint64_t epoch) {
  assert_that(rank < team_.size(), "arrivals are counted at ranks of the team");
  return seen_[kOpen * rank + place(epoch)];
}

RemoteWord<AtomicWord> Arrivals::word(team::Rank rank, std::uint64_t epoch) const {
  return words_->of(rank).word<AtomicWord>(8 * place(epoch));
}

Outcome Arrivals::await_open(Channel& channel, team::Rank rank, std::uint64_t epoch, Deadline deadline) {
  if (!rules_.waits_until_open) return Outcome::done;
  {
    const MutexLock lock(mutex_);
    if (seen_round(rank, epoch) == round(epoch)) return Outcome::done;
  }
  for (Backoff<Duration> backoff(kFirstPause, kMaxPause);;) {
    const Result<std::uint64_t> found = channel.load(word(rank, epoch), deadline);
    if (!found.done()) return found.status;
    const std::uint32_t named = round_in(found.value);
    if (is_later(named, round(epoch))) refuse("send in", epoch, "its receiver has ended it");
    if (named == round(epoch)) {
      const MutexLock lock(mutex_);
      seen_round(rank, epoch) = named;
      return Outcome::done;
    }
    if (team_.fabric().now() >= deadline.at) return Outcome::timed_out;
    team_.fabric().sleep(backoff.next());
  }
}

Outcome Arrivals::wait(Channel& channel, std::uint64_t epoch, std::uint32_t count, std::span<const team::Rank> senders,
                       Deadline deadline) {
  const auto here = words_->local().word<AtomicWord>(8 * place(epoch));
  const auto is_full = [this, epoch, count](std::uint64_t word) {
    return is_later(round_in(word), round(epoch)) || (round_in(word) == round(epoch) && arrivals_in(word) >= count);
  };
  const Outcome waited = channel.wait_until(words_->local(), here, is_full, deadline, senders);
  if (waited != Outcome::done) return waited;
  channel.local_fence();
  return end(channel, epoch, count);
}

// The word is `full` once. A try whose answer was lost therefore changes nothing when it lands late, and the next one
// finds the next round when it did land; so does a later call after one that did not learn how its try ended.
Outcome Arrivals::end(Channel& channel, std::uint64_t epoch, std::uint32_t count) {
  const std::uint64_t full = packed(round(epoch), count);
  const std::uint64_t next = packed(round(epoch + kOpen), 0);
  const Deadline deadline = team_.fabric().in(comm::time_limits::kOnOwnMemory);
  for (;;) {
    const bool is_first = set_ending(epoch, true);
    const Result<std::uint64_t> found = channel.compare_swap(word(team_.rank(), epoch), full, next, deadline);
    if (found.status == Outcome::link_lost && team_.fabric().now() < deadline.at) continue;
    if (!found.done()) return found.status;
    set_ending(epoch, false);
    const bool ended_before = !is_first && round_in(found.value) == round_in(next);
    if (found.value != full && !ended_before) {
      refuse("end", epoch, "more has arrived than was awaited, or it had ended");
    }
    return Outcome::done;
  }
}

bool Arrivals::set_ending(std::uint64_t epoch, bool is_ending) {
  const MutexLock lock(mutex_);
  return is_ending ? ending_.insert(epoch).second : ending_.erase(epoch) != 0;
}

}  // namespace farside::comm
