#include "gas/protocol/mover.h"

#include <algorithm>
#include <bit>

#include "base/assert.h"
#include "gas/time_limits.h"

namespace farside::gas {

namespace {

using comm::Status;
using team::Rank;

// The most that is locked at once: others wait for these pages until all have been copied.
constexpr std::uint64_t kPagesAtOnce = 256;
constexpr std::uint64_t kBytesAtOnce = 16U << 20U;

// Whose places are asked for together: of so many rounds. What is moved before its round comes is tried again.
constexpr std::uint64_t kRoundsLookedAt = 16;

}  // namespace

Moved Mover::own(std::span<const PageId> pages, Deadline deadline) {
  assert_that(!accessor_.is_open(), "nothing is begun by the accessor of a thread that moves pages");
  std::vector<PageId> wanted(pages.begin(), pages.end());
  std::ranges::sort(wanted);
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  Moved moved;
  for (Pauses pauses(memory_.fabric()); !wanted.empty();) {
    const std::size_t before = wanted.size();
    accessor_.settle_now_and_then();  // what this thread has given up itself keeps its pages where they are
    const Status tried = own_each(wanted, moved, deadline);
    if (moved.full) break;
    // A loss that has ended a round may have to become known before the next can do without the lost rank's pages.
    if (tried.outcome == Outcome::timed_out || (wanted.size() == before && !pauses.sleep(deadline))) {
      moved.status = {Outcome::timed_out, {}};
      break;
    }
  }
  return moved;
}

Status Mover::own_each(std::vector<PageId>& wanted, Moved& moved, Deadline deadline) {
  std::vector<PageId> left;
  Status first;
  const std::uint64_t part = kRoundsLookedAt * at_once();
  for (std::size_t at = 0; at < wanted.size(); at += part) {
    const std::size_t end = std::min(wanted.size(), at + part);
    std::vector<PageId> some(wanted.begin() + static_cast<std::ptrdiff_t>(at),
                             wanted.begin() + static_cast<std::ptrdiff_t>(end));
    const Status status = own_some(some, moved, deadline);
    left.insert(left.end(), some.begin(), some.end());
    if (first.done()) first = status;
    if (moved.full || status.outcome == Outcome::timed_out) {
      left.insert(left.end(), wanted.begin() + static_cast<std::ptrdiff_t>(end), wanted.end());
      first = status;
      break;
    }
  }
  wanted = std::move(left);
  return first;
}

Status Mover::own_some(std::vector<PageId>& wanted, Moved& moved, Deadline deadline) {
  auto [status, places] = find(wanted, moved, deadline);
  assert_that(!status.done() || places.size() == wanted.size(), "each page that is wanted has its place");
  std::vector<PageId> published;
  for (std::size_t at = 0; status.done() && !moved.full && at < places.size(); at += at_once()) {
    const std::size_t count = std::min(places.size() - at, at_once());
    Locked locked = lock(std::span(wanted).subspan(at, count), std::span(places).subspan(at, count), deadline);
    Moves& moves = locked.moves;
    status = locked.status;
    moved.full = locked.full;
    if (status.done()) status = bring(moves, deadline);
    unlock(moves);
    for (const Move& move : moves) {
      if (!move.published) continue;
      assert_that(published.empty() || published.back() < move.page, "pages are published in ascending order");
      published.push_back(move.page);
    }
  }
  moved.pages += published.size();
  std::erase_if(wanted, [&](PageId page) { return std::ranges::binary_search(published, page); });
  return status;
}

Mover::Places Mover::find(std::vector<PageId>& wanted, Moved& moved, Deadline deadline) {
  const auto leave_out = [&moved](PageId page, Rank lost) {
    moved.lost.push_back(page);
    moved.status = {Outcome::peer_lost, lost};
  };
  std::vector<Location> found(wanted.size());
  const Status looked = directory_.look(wanted, found, deadline);
  if (looked.lost) {
    std::erase_if(wanted, [&](PageId page) {
      const bool is_lost = memory_.layout().home_of(page) == *looked.lost;
      if (is_lost) leave_out(page, *looked.lost);
      return is_lost;
    });
  }
  if (!looked.done()) return {looked, {}};

  std::vector<PageId> elsewhere;
  std::vector<Location> places;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const Location& place = found[i];
    if (!place.moving && place.owner == memory_.self()) continue;
    if (!place.moving && memory_.fabric().lost(place.owner)) {
      leave_out(wanted[i], place.owner);
      continue;
    }
    elsewhere.push_back(wanted[i]);
    places.push_back(place);
  }
  wanted = std::move(elsewhere);
  return {{}, std::move(places)};
}

std::uint64_t Mover::at_once() const {
  return std::clamp<std::uint64_t>(kBytesAtOnce / memory_.layout().shape().page_bytes, 1, kPagesAtOnce);
}

// ---- Locking

Mover::Locked Mover::lock(std::span<const PageId> pages, std::span<const Location> places, Deadline deadline) {
  const GasRules& rules = memory_.rules();
  std::vector<Location> before;
  Moves moves;
  Status status;
  bool full = false;
  for (std::size_t i = 0; i < pages.size(); ++i) {
    Location lock = places[i].locked();
    if (places[i].moving) {
      StandstillWatch& watch = locks_.try_emplace(pages[i], memory_.fabric(), memory_.lease()).first->second;
      if (!watch.stands_still(places[i].word())) continue;
      lock = places[i].taken_over();
    }
    locks_.erase(pages[i]);
    const Reclaimer::Slot slot = reclaimer_.take(deadline);
    status = slot.status;
    full = status.done() && !slot.slot && moves.empty();
    if (!slot.slot) break;
    before.push_back(places[i]);
    moves.push_back({pages[i], lock, *slot.slot, std::vector<Sharers>(memory_.layout().sharer_words())});
  }
  if (!rules.locks_before_reading_sharers) (void)read_sharers(moves, deadline);

  std::vector<std::uint64_t> seen(moves.size());
  Batch batch(channel_);
  for (std::size_t i = 0; i < moves.size(); ++i) {
    seen[i] = ~before[i].word();  // until the answer has come
    batch.compare_swap(memory_.place(moves[i].page), before[i].word(), moves[i].lock.word(), seen[i]);
  }
  const Outcome swapped = batch.wait(deadline);
  if (swapped != Outcome::done && status.done()) status = directory_.status_at_homes(pages, swapped);
  Moves locked;
  for (std::size_t i = 0; i < moves.size(); ++i) {
    if (seen[i] == before[i].word()) {
      locked.push_back(std::move(moves[i]));
    } else {
      memory_.slots().give_back(moves[i].slot);  // no rank was told of it
    }
  }
  return {status, std::move(locked), full};
}

// A rank that lost its lock to another finds another word, and does no harm.
void Mover::unlock(const Moves& moves) {
  const Deadline deadline = memory_.fabric().in(gas::time_limits::kUnlock);
  std::vector<std::uint64_t> seen(moves.size());
  Batch batch(channel_);
  for (std::size_t i = 0; i < moves.size(); ++i) {
    const Move& move = moves[i];
    if (move.published || move.in_doubt) continue;
    memory_.slots().give_back(move.slot);
    batch.compare_swap(memory_.place(move.page), move.lock.word(), move.lock.left_alone().word(), seen[i]);
  }
  (void)batch.wait(deadline);  // a rank that wants a page that stays locked breaks the lock
}

// ---- Bringing what is locked

Status Mover::bring(Moves& moves, Deadline deadline) {
  if (const Status silent = silence(moves, deadline); !silent.done()) return silent;
  if (const Status copied = copy(moves, deadline); !copied.done()) return copied;
  const Status published = publish(moves, deadline);
  if (memory_.rules().forgets_after_publishing) forget_sharers(moves, deadline);
  return published;
}

Status Mover::silence(Moves& moves, Deadline deadline) {
  if (memory_.rules().locks_before_reading_sharers) {
    if (const Status read = read_sharers(moves, deadline); !read.done()) return read;
  }
  if (const Status revoked = revoke(moves, deadline); !revoked.done()) return revoked;
  if (!memory_.rules().forgets_after_publishing) forget_sharers(moves, deadline);
  if (memory_.rules().awaits_holds) {
    if (const Status awaited = await_holds(moves, deadline); !awaited.done()) return awaited;
  }
  return pass_lost(moves, deadline);
}

Status Mover::read_sharers(Moves& moves, Deadline deadline) {
  const std::uint64_t words = memory_.layout().sharer_words();
  std::vector<std::uint64_t> read(moves.size() * words);
  Batch batch(channel_);
  for (std::size_t i = 0; i < read.size(); ++i) {
    const auto word = memory_.sharers(moves[i / words].page, i % words);
    batch.read(LocalSpan(read[i]), {word.region, word.offset, 8});
  }
  const Outcome outcome = batch.wait(deadline);
  for (std::size_t i = 0; i < read.size(); ++i) moves[i / words].sharers[i % words] = Sharers::from_word(read[i]);
  return directory_.status_at_homes(pages_of(moves), outcome);
}

// Those that are lost are left out. When one dies meanwhile, all are told again, which does no harm.
Status Mover::revoke(Moves& moves, Deadline deadline) {
  for (;;) {
    std::vector<std::pair<Rank, PageId>> told;
    for (const Move& move : moves) {
      for (const Rank rank : sharers_of(move)) {
        if (!memory_.fabric().lost(rank)) told.emplace_back(rank, move.page);
      }
    }
    std::vector<std::uint64_t> old(told.size());
    Batch batch(channel_);
    for (std::size_t i = 0; i < told.size(); ++i) {
      const auto word = memory_.revoked(told[i].first, told[i].second);
      if (memory_.rules().revoking_counts) {
        batch.fetch_add(word, 1, old[i]);
      } else {
        batch.swap(word, 1, old[i]);
      }
    }
    const Outcome outcome = batch.wait(deadline);
    if (outcome != Outcome::peer_lost) return {outcome, {}};
    if (memory_.fabric().now() >= deadline.at) return {Outcome::timed_out, {}};
  }
}

// ---- The page itself

Status Mover::copy(const Moves& moves, Deadline deadline) {
  Batch batch(channel_);
  for (const Move& move : moves) {
    if (move.given_up) continue;
    batch.read(memory_.own_slot(move.slot), memory_.in_slot(move.lock, 0, memory_.layout().shape().page_bytes));
  }
  const Outcome outcome = batch.wait(deadline);
  channel_.local_fence();  // a reader of the new entry reads what has been copied
  if (outcome != Outcome::peer_lost) return {outcome, {}};
  const auto lost =
      std::ranges::find_if(moves, [&](const Move& move) { return memory_.fabric().lost(move.lock.owner); });
  return {outcome, lost == moves.end() ? std::nullopt : std::optional(lost->lock.owner)};
}

Status Mover::publish(Moves& moves, Deadline deadline) {
  const GasRules& rules = memory_.rules();
  std::vector<std::uint64_t> seen(moves.size());
  std::vector<std::uint64_t> words(moves.size());
  Batch batch(channel_);
  for (std::size_t i = 0; i < moves.size(); ++i) {
    const Move& move = moves[i];
    if (move.given_up) continue;
    const auto word = memory_.place(move.page);
    words[i] = move.lock.moved_to(memory_.self(), move.slot).word();
    seen[i] = ~move.lock.word();  // until the answer has come
    if (rules.publishes_by_compare_swap) {
      batch.compare_swap(word, move.lock.word(), words[i], seen[i]);
    } else {
      batch.write({word.region, word.offset, 8}, LocalSpan(words[i]));
      seen[i] = move.lock.word();
    }
  }
  const Outcome outcome = batch.wait(deadline);
  for (std::size_t i = 0; i < moves.size(); ++i) {
    Move& move = moves[i];
    if (move.given_up) continue;
    move.published = seen[i] == move.lock.word();
    move.in_doubt = seen[i] == ~move.lock.word() && rules.keeps_what_is_in_doubt;
    if (move.published) memory_.slots().fill(move.slot, move.page);
    if (move.in_doubt) memory_.slots().fill(move.slot, move.page, move.lock);
  }
  return directory_.status_at_homes(pages_of(moves), outcome);
}

// Except words in which a rank has registered since they were read: it may know the new place.
void Mover::forget_sharers(const Moves& moves, Deadline deadline) {
  const std::uint64_t words = memory_.layout().sharer_words();
  std::vector<std::uint64_t> seen(moves.size() * words);
  Batch batch(channel_);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const Move& move = moves[i / words];
    const Sharers sharers = move.sharers[i % words];
    if (sharers.ranks == 0 || (memory_.rules().forgets_after_publishing && !move.published)) continue;
    const auto word = memory_.sharers(move.page, i % words);
    if (memory_.rules().forgets_what_was_told) {
      batch.compare_swap(word, sharers.word(), sharers.without_any().word(), seen[i]);
    } else {
      batch.swap(word, sharers.without_any().word(), seen[i]);
    }
  }
  (void)batch.wait(deadline);  // the page's next mover tells too many
}

std::vector<Rank> Mover::sharers_of(const Move& move) const {
  std::vector<Rank> ranks;
  for (Rank word = 0; word < move.sharers.size(); ++word) {
    for (std::uint32_t left = move.sharers[word].ranks; left != 0; left &= left - 1) {
      const Rank rank = word * Sharers::kRanks + static_cast<Rank>(std::countr_zero(left));
      if (rank < memory_.team().size()) ranks.push_back(rank);
    }
  }
  return ranks;
}

std::vector<PageId> Mover::pages_of(const Moves& moves) {
  std::vector<PageId> pages;
  for (const Move& move : moves) pages.push_back(move.page);
  return pages;
}

}  // namespace farside::gas
