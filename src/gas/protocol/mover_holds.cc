// How a mover waits until no rank puts to the pages that it has locked.
#include <algorithm>
#include <map>
#include <set>

#include "gas/protocol/mover.h"

namespace farside::gas {

using comm::Status;

Status Mover::await_holds(Moves& moves, Deadline deadline) {
  const auto [status, held] = find_holds(moves, deadline);
  if (!status.done()) return status;
  for (const Held& one : held) {
    if (const Status awaited = await_hold(one, moves, deadline); !awaited.done()) return awaited;
  }
  return {};
}

// Again from the beginning when one of the sharers is lost meanwhile.
Mover::Holds Mover::find_holds(const Moves& moves, Deadline deadline) {
  for (;;) {
    std::vector<Held> held;
    std::set<team::Rank> ranks;
    for (const Move& move : moves) {
      for (const team::Rank rank : sharers_of(move)) {
        if (!memory_.fabric().lost(rank)) ranks.insert(rank);
      }
    }
    std::map<team::Rank, std::uint64_t> opened;
    Batch batch(channel_);
    for (const team::Rank rank : ranks) {
      const auto word = memory_.opened(rank);
      batch.read(LocalSpan(opened[rank]), {word.region, word.offset, 8});
    }
    Outcome outcome = batch.wait(deadline);
    if (outcome == Outcome::done) {
      for (const auto& [rank, count] : opened) {
        for (std::uint64_t i = 0; i < std::min(count, PageLayout::kHolds); ++i) held.push_back({rank, i, 0});
      }
      for (Held& one : held) {
        const auto word = memory_.hold(one.rank, one.index);
        batch.read(LocalSpan(one.word), {word.region, word.offset, 8});
      }
      outcome = batch.wait(deadline);
    }
    if (outcome == Outcome::done) return {{}, std::move(held)};
    if (outcome == Outcome::timed_out || memory_.fabric().now() >= deadline.at) return {{Outcome::timed_out, {}}, {}};
  }
}

// Until it was let go. A put's hold that stays belongs to a rank that has stopped.
Status Mover::await_hold(const Held& held, Moves& moves, Deadline deadline) {
  const Hold hold = Hold::from_word(held.word);
  const auto concerns = [&](const Move& move) { return !move.given_up && hold.has(move.page); };
  if (std::ranges::none_of(moves, concerns)) return {};
  if (leaves_to_its_rank(hold, moves)) return {};
  StandstillWatch watch(memory_.fabric(), memory_.lease());
  for (Pauses pauses(memory_.fabric()); !memory_.fabric().lost(held.rank);) {
    const Result<std::uint64_t> now = channel_.load(memory_.hold(held.rank, held.index), deadline);
    if (now.status == Outcome::timed_out) return comm::status_with(now.status, held.rank);
    if (now.status == Outcome::link_lost) {  // says nothing of the hold
      if (!pauses.sleep(deadline)) return comm::status_with(Outcome::timed_out, held.rank);
      continue;
    }
    const bool stays =
        memory_.rules().awaits_grown_holds ? Hold::from_word(now.value).continues(hold) : now.value == held.word;
    if (now.done() && (!stays || leaves_to_its_rank(Hold::from_word(now.value), moves))) return {};
    // Not a rank that refuses to show its hold: it has taken this one for dead, and may be well itself.
    if (now.done() && held.rank != memory_.self() && watch.stands_still(now.value)) {
      if (!memory_.rules().evicts_before_passing) return {};
      const Outcome evicted = memory_.team().evict(held.rank, deadline);
      if (evicted == Outcome::timed_out) return comm::status_with(evicted, held.rank);
    } else if (!pauses.sleep(deadline)) {
      return {Outcome::timed_out, {}};
    }
  }
  return {};
}

bool Mover::leaves_to_its_rank(const Hold& hold, Moves& moves) const {
  if (!hold.pinned && !(hold.given_up && memory_.rules().spares_ranks_that_gave_up)) return false;
  for (Move& move : moves) move.given_up = move.given_up || hold.has(move.page);
  return true;
}

Status Mover::pass_lost(Moves& moves, Deadline deadline) {
  std::vector<Move*> closed;
  for (Move& move : moves) {
    if (move.given_up) continue;
    std::vector<team::Rank> lost = sharers_of(move);
    std::erase_if(lost, [this](team::Rank rank) { return !memory_.fabric().lost(rank); });
    // One that has cut this rank off goes on with the place that it knows, and was not told of the move.
    move.given_up = memory_.rules().passes_only_if_out &&
                    std::ranges::any_of(lost, [this](team::Rank rank) { return !memory_.team().is_out(rank); });
    if (move.given_up || lost.empty()) continue;
    for (const team::Rank rank : lost) {
      if (const Status told = distrust(move.lock.owner, rank, deadline); !told.done()) return told;
    }
    closed.push_back(&move);
  }
  if (!memory_.rules().closes_when_passing) return {};
  for (Move* const move : closed) {
    const Location lock = move->lock.without_gets();
    const Result<std::uint64_t> seen =
        channel_.compare_swap(memory_.place(move->page), move->lock.word(), lock.word(), deadline);
    if (!seen.done()) return directory_.status_at_homes({&move->page, 1}, seen.status);
    move->given_up = seen.value != move->lock.word();
    move->lock = lock;
  }
  return {};
}

// The owner of a page's old place uses it again only when `lost` cannot reach it any more.
Status Mover::distrust(team::Rank at, team::Rank lost, Deadline deadline) {
  const auto word = memory_.distrusted(at, lost);
  const std::uint64_t bit = std::uint64_t{1} << lost % 64;
  for (Result<std::uint64_t> seen = channel_.load(word, deadline);;) {
    if (!seen.done()) return comm::status_with(seen.status, at);
    if ((seen.value & bit) != 0) return {};
    const Result<std::uint64_t> before = channel_.compare_swap(word, seen.value, seen.value | bit, deadline);
    if (before.done() && before.value == seen.value) return {};
    seen = before;
  }
}

}  // namespace farside::gas
