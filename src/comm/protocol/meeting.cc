#include "comm/protocol/meeting.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>

#include "farside/base/error.h"

#include "base/assert.h"
#include "comm/protocol/lines.h"
#include "comm/time_limits.h"

namespace farside::comm {

namespace {

using team::Rank;

std::uint32_t place_in(const std::vector<Rank>& members, Rank rank) {
  const auto found = std::ranges::lower_bound(members, rank);
  const bool ascend = std::ranges::adjacent_find(members, std::greater_equal<>()) == members.end();
  if (!ascend || found == members.end() || *found != rank) {
    throw UsageError({"form a group of", std::to_string(members.size()) + " ranks",
                      "they do not ascend, or rank " + std::to_string(rank) + " is not among them", ""});
  }
  return static_cast<std::uint32_t>(found - members.begin());
}

}  // namespace

// ---- Where things lie: released words, counters a line each, then what is brought and the results.

std::uint64_t Meeting::released_offset(std::uint64_t number) const { return slot_of(number) * 8; }

std::uint64_t Meeting::counter_offset(std::uint32_t level, std::uint64_t number) const {
  const std::uint64_t slot = rules_.counts_instances_apart ? slot_of(number) : 0;
  return kLineBytes * (1 + level * kInFlight + slot);
}

std::uint64_t Meeting::brought_offset(std::uint32_t level, std::uint64_t number, std::uint32_t child) const {
  const std::uint64_t piece = (level * kInFlight + slot_of(number)) * CombiningTree::kFanIn + child;
  return counter_offset(levels_, 0) + piece * payload_bytes_;
}

std::uint64_t Meeting::result_offset(std::uint64_t number) const {
  return brought_offset(levels_, 0, 0) + slot_of(number) * payload_bytes_;
}

LocalWord<ControlWord> Meeting::released(std::uint64_t number) const {
  return memory_->local().word<ControlWord>(released_offset(number));
}

std::uint64_t Meeting::first_under_way(std::uint64_t number) { return number < kInFlight ? 1 : number - kInFlight + 1; }

bool Meeting::is_released(std::uint64_t number) const { return released(number).load() >= number; }

Meeting::Meeting(team::Team& team, std::vector<Rank> members, const std::string& name, std::uint64_t payload_bytes,
                 const MeetingRules& rules)
    : rules_(rules),
      fabric_(team.fabric()),
      members_(std::move(members)),
      has_outside_(members_.size() < team.size()),
      others_(members_),
      self_(place_in(members_, team.rank())),
      way_up_(CombiningTree(static_cast<std::uint32_t>(members_.size())).way_up(self_)),
      payload_bytes_(in_lines(payload_bytes)),
      levels_(CombiningTree(team.size()).levels()) {
  assert_that(way_up_.size() <= levels_, "a group's tree is not higher than that of all ranks");
  std::erase(others_, team.rank());
  memory_ = team.allocate(name, result_offset(kInFlight - 1) + payload_bytes_);
}

// ---- Arriving

Result<std::uint64_t> Meeting::open(Channel& channel, Deadline deadline) {
  for (;;) {
    std::uint64_t before = 0;  // the last meeting of the slot
    {
      const MutexLock lock(mutex_);
      const std::uint64_t number = opened_ + 1;
      before = number > kInFlight && rules_.waits_for_the_slot ? number - kInFlight : 0;
      if (before == 0 || is_released(before)) return {Outcome::done, ++opened_};
    }
    if (const Outcome waited = wait_for_release(channel, before, deadline); waited != Outcome::done) return {waited, 0};
  }
}

// Members first: flush_all does not say of which rank a failure is, and no later flush reports it again.
Outcome Meeting::flush(Channel& channel, std::uint64_t number, Deadline deadline) {
  if (!has_outside_) return channel.flush_all(deadline);
  if (const Outcome flushed = channel.flush_each(members_, deadline); flushed != Outcome::done) return flushed;
  const Outcome outside = flush_outside(channel, deadline);
  if (outside != Outcome::done && report_) report_(number, outside);
  return Outcome::done;
}

Outcome Meeting::flush_outside(Channel& channel, Deadline deadline) {
  const Time now = fabric_.now();
  Duration share = (deadline.at - now) / 2;  // the arrival needs time as well
  {
    const MutexLock lock(mutex_);
    const bool is_slow = now < outside_is_slow_until_;
    share = std::min(share, is_slow ? comm::time_limits::kSlowOutside : comm::time_limits::kOutside);
  }
  const Outcome flushed = channel.flush_all({now + share});
  if (flushed == Outcome::timed_out || flushed == Outcome::link_lost) {
    const MutexLock lock(mutex_);
    outside_is_slow_until_ = fabric_.now() + comm::time_limits::kOutsideStaysSlow;
  }
  return flushed;
}

Outcome Meeting::arrive(Channel& channel, std::uint64_t number, std::span<std::byte> payload, const Combine& combine,
                        Deadline deadline) {
  assert_that(payload.size() <= payload_bytes_, "what a member brings fits its place");
  if (rules_.stores_before_arriving) channel.local_fence();
  if (rules_.flushes_before_arriving) {
    if (const Outcome flushed = flush(channel, number, deadline); flushed != Outcome::done) return flushed;
  }
  std::vector<std::byte> combined;  // at the last node
  for (const CombiningTree::Node& node : way_up_) {
    const Result<std::uint64_t> last = enter(channel, node, number, payload, deadline);
    // The host may have counted this arrival, been released and left before its answer came.
    if (last.status == Outcome::peer_lost && rules_.asks_after_a_loss) {
      const Deadline asking{
          std::min(deadline.at, fabric_.in(comm::time_limits::kAsk).at)};  // others wait for this thread
      return end_after_a_loss(number, asking) == Outcome::done ? Outcome::done : Outcome::peer_lost;
    }
    if (!last.done() || last.value == 0) return last.status;
    if (payload.empty()) continue;
    std::vector<std::byte> pieces(node.fan_in * payload.size());
    const Outcome read = combine_all(channel, node, number, payload.size(), pieces, combine, deadline);
    if (read != Outcome::done) return read;
    combined = std::move(pieces);
    payload = std::span(combined).first(payload.size());
  }
  return release(channel, number, payload, deadline);
}

Result<std::uint64_t> Meeting::enter(Channel& channel, const CombiningTree::Node& node, std::uint64_t number,
                                     std::span<std::byte> payload, Deadline deadline) {
  const RemoteRegion& host = memory_->of(members_[node.host]);
  if (!payload.empty()) {
    const auto place = host.span(brought_offset(node.level, number, node.child), payload.size());
    Outcome brought = channel.write(place, LocalSpan(payload.data(), payload.size()), deadline);
    if (brought == Outcome::done && rules_.contribution_before_arrival) brought = channel.flush(host.peer(), deadline);
    if (brought != Outcome::done) return {brought, 0};
  }
  const Result<std::uint64_t> earlier =
      channel.fetch_add(host.word<AtomicWord>(counter_offset(node.level, number)), 1, deadline);
  // The counter is never reset: each meeting of its slot adds fan_in to it.
  return {earlier.status, (earlier.value + 1) % node.fan_in == 0 ? 1U : 0U};
}

Outcome Meeting::combine_all(Channel& channel, const CombiningTree::Node& node, std::uint64_t number,
                             std::uint64_t bytes, std::vector<std::byte>& pieces, const Combine& combine,
                             Deadline deadline) {
  const RemoteRegion& host = memory_->of(members_[node.host]);
  const auto piece = [&](std::uint32_t child) { return std::span(pieces).subspan(child * bytes, bytes); };
  Batch batch(channel);
  for (std::uint32_t child = 0; child < node.fan_in; ++child) {
    batch.read(LocalSpan(piece(child).data(), bytes), host.span(brought_offset(node.level, number, child), bytes));
  }
  if (const Outcome read = batch.wait(deadline); read != Outcome::done) return read;
  // In the order of the children, not of their arrival, on which rounding must not depend.
  for (std::uint32_t child = 1; child < node.fan_in; ++child) combine(piece(0), piece(child));
  return Outcome::done;
}

// All have arrived. A member that is lost now was released and has left, or its death concerns later meetings only. If
// a connection broke, the member at its other end may live and wait.
Outcome Meeting::release(Channel& channel, std::uint64_t number, std::span<std::byte> result, Deadline deadline) {
  const std::uint64_t flag = rules_.flags_name_instances ? number : ~0ULL;
  if (rules_.releases_itself_first) release_here(channel, number, flag, result);
  Outcome outcome = release_all(channel, number, flag, result, deadline);
  while (outcome == Outcome::link_lost && fabric_.now() < deadline.at) {
    outcome = release_all(channel, number, flag, result, deadline);
  }
  return outcome;
}

Outcome Meeting::release_all(Channel& channel, std::uint64_t number, std::uint64_t flag, std::span<std::byte> result,
                             Deadline deadline) {
  Completion all;
  const auto note = [&all](Outcome outcome) {
    if (outcome != Outcome::peer_lost) all.record(outcome);
  };
  std::vector<RemoteWord<ControlWord>> words;
  words.reserve(members_.size());
  for (const Rank member : members_) words.push_back(memory_->of(member).word<ControlWord>(released_offset(number)));
  if (!rules_.result_before_release) note(channel.write_signals(words, flag, deadline));
  if (!result.empty()) {
    Batch batch(channel);
    for (const Rank member : members_) {
      batch.write(memory_->of(member).span(result_offset(number), result.size()),
                  LocalSpan(result.data(), result.size()));
    }
    note(batch.wait(deadline));
  }
  note(channel.write_signals(words, flag, deadline));  // each after what was written to that member before
  note(channel.flush_each(members_, deadline));        // so that it arrives even if this member makes no call any more
  return all.outcome;
}

void Meeting::release_here(Channel& channel, std::uint64_t number, std::uint64_t flag,
                           std::span<const std::byte> result) const {
  const auto let_leave = [&] {  // what was stored here
    if (rules_.stores_before_arriving) channel.local_fence();
  };
  if (rules_.result_before_release) memory_->local().copy_in(result_offset(number), result);
  let_leave();
  released(number).store(flag);
  let_leave();
}

// ---- The end: those before it that may be under way have ended as well

bool Meeting::ended(std::uint64_t number) const {
  for (std::uint64_t each = first_under_way(number); each <= number; ++each) {
    if (!is_released(each)) return false;
  }
  return true;
}

Outcome Meeting::wait(Channel& channel, std::uint64_t number, Deadline deadline) const {
  for (std::uint64_t each = first_under_way(number); each <= number; ++each) {
    if (is_released(each)) continue;
    if (const Outcome waited = wait_for_release(channel, each, deadline); waited != Outcome::done) return waited;
  }
  channel.local_fence();
  return Outcome::done;
}

Outcome Meeting::wait_for_release(Channel& channel, std::uint64_t number, Deadline deadline) const {
  const Outcome waited = channel.wait_until(
      memory_->local(), released(number), [number](std::uint64_t seen) { return seen >= number; }, deadline, others_);
  const bool asks = waited == Outcome::peer_lost && rules_.asks_after_a_loss;
  return asks ? end_after_a_loss(number, deadline) : waited;
}

// The lost member may have been released and have left. Then all had arrived, and the member that releases has either
// released this one or lives and shows it, as each other one does that lives and was released.
Outcome Meeting::end_after_a_loss(std::uint64_t number, Deadline deadline) const {
  const auto asking = fabric_.open_channel();  // its own: what an unresponsive member costs it, the caller's is spared
  if (some_have_not_arrived(*asking, number)) return Outcome::peer_lost;
  for (;;) {
    bool all_answered = true;
    for (const Rank member : others_) {
      if (is_released(number)) return Outcome::done;
      const Outcome taken = take_release(*asking, member, number);
      all_answered = all_answered && (taken == Outcome::done || taken == Outcome::peer_lost);
    }
    if (is_released(number)) return Outcome::done;
    if (all_answered) return Outcome::peer_lost;
    if (fabric_.now() >= deadline.at) return Outcome::timed_out;
  }
}

bool Meeting::some_have_not_arrived(Channel& asking, std::uint64_t number) const {
  const CombiningTree::Node& root = way_up_.back();
  const auto counter = memory_->of(members_[root.host]).word<AtomicWord>(counter_offset(root.level, number));
  const Result<std::uint64_t> arrivals = asking.load(counter, fabric_.in(comm::time_limits::kAsk));
  return arrivals.done() && arrivals.value < root.fan_in * ((number - 1) / kInFlight + 1);
}

Outcome Meeting::take_release(Channel& asking, Rank member, std::uint64_t number) const {
  const RemoteRegion& there = memory_->of(member);
  const Result<std::uint64_t> seen =
      asking.load(there.word<ControlWord>(released_offset(number)), fabric_.in(comm::time_limits::kAsk));
  if (!seen.done() || seen.value < number) return seen.status;
  std::vector<std::byte> result(payload_bytes_);
  if (!result.empty()) {
    const auto from = there.span(result_offset(number), result.size());
    const Outcome read =
        asking.read(LocalSpan(result.data(), result.size()), from, fabric_.in(comm::time_limits::kAsk));
    if (read != Outcome::done) return read;
  }
  release_here(asking, number, seen.value, result);
  return Outcome::done;
}

void Meeting::take_result(std::uint64_t number, std::span<std::byte> into) const {
  assert_that(into.size() <= payload_bytes_, "a result is not longer than what members bring");
  memory_->local().copy_out(result_offset(number), into);
}

}  // namespace farside::comm
