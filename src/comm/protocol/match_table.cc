#include "comm/protocol/match_table.h"

#include <array>
#include <utility>

#include "farside/base/rounding.h"

#include "base/assert.h"

namespace farside::comm {

namespace {

constexpr std::uint64_t kEntryBytes = 64;
constexpr std::uint64_t kPlaces = 8;  // in an entry: the offered one, then the claimed one
constexpr std::uint64_t kRoundsMask = 0xffff'ffff;
constexpr std::uint64_t kOneThatDidNotFit = std::uint64_t{1} << 32U;
constexpr std::uint64_t kCarry = std::uint64_t{1} << 32U;

// The fields of an entry's word.
constexpr std::uint64_t kOneWithdrawal = std::uint64_t{1} << 34U;
std::uint64_t state_of(std::uint64_t round, std::uint64_t phase) { return round << 2U | phase; }
std::uint64_t without_withdrawals(std::uint64_t word) { return word % kOneWithdrawal; }
std::uint64_t with_phase(std::uint64_t word, std::uint64_t phase) { return (word & ~std::uint64_t{3}) | phase; }

MatchTable::End other(MatchTable::End end) {
  return end == MatchTable::End::source ? MatchTable::End::destination : MatchTable::End::source;
}

}  // namespace

// ---- Where things lie: the words `ended` of both ends, then the entries.

std::uint64_t MatchTable::ended_offset(End end, team::Rank peer, std::uint64_t key) const {
  const std::uint64_t row = end == End::source ? peer : std::uint64_t{team_.size()} + peer;
  return 8 * (row * keys_ + key);
}

std::uint64_t MatchTable::entry_offset(team::Rank source, std::uint64_t key) const {
  const std::uint64_t words = 2 * std::uint64_t{team_.size()} * keys_ * 8;
  return round_up(words, kEntryBytes) + kEntryBytes * (source * keys_ + key);
}

RemoteWord<AtomicWord> MatchTable::state_word(const Ticket& ticket) const {
  const bool here = ticket.end == End::destination;
  const RemoteRegion& destination = memory_->of(here ? team_.rank() : ticket.peer);
  return destination.word<AtomicWord>(entry_offset(here ? ticket.peer : team_.rank(), ticket.key));
}

RemoteSpan MatchTable::place_span(const Ticket& ticket, End end) const {
  const RemoteWord<AtomicWord> entry = state_word(ticket);
  const std::uint64_t after = kPlaces + (end == End::source ? 0 : sizeof(MatchPlace));
  return entry.region->span(entry.offset + after, sizeof(MatchPlace));
}

LocalWord<AtomicWord> MatchTable::ended_word(const Ticket& ticket) const {
  return memory_->local().word<AtomicWord>(ended_offset(ticket.end, ticket.peer, ticket.key));
}

MatchTable::MatchTable(team::Team& team, const std::string& name, std::vector<const team::SymmetricRegion*> regions,
                       std::uint64_t keys, const MatchRules& rules)
    : team_(team),
      rules_(rules),
      regions_(std::move(regions)),
      keys_(keys),
      memory_(team.allocate(name, entry_offset(team.size(), 0))) {}

// ---- One end of a round

std::optional<MatchTable::Ticket> MatchTable::open(End end, team::Rank peer, std::uint64_t key) {
  assert_that(peer < team_.size() && key < keys_, "a round is between two ranks, with one of the keys");
  const std::uint64_t word = ended_offset(end, peer, key);
  const auto load = [&] { return memory_->local().word<AtomicWord>(word).load(); };
  // Under the lock: a thread that had looked before would take rounds that others have begun since for its own.
  const std::uint64_t seen_before = rules_.looks_under_lock ? 0 : load();
  const MutexLock lock(mutex_);
  const std::uint64_t ended = rules_.looks_under_lock ? load() : seen_before;
  const auto [last, is_first] = open_.try_emplace(word, ended);
  if (!is_first && last->second == ended) return std::nullopt;
  last->second = ended;
  return Ticket{end, peer, key, ended};
}

MatchTable::State MatchTable::state(const Ticket& ticket) const {
  const std::uint64_t ended = ended_word(ticket).load();
  if (ended == ticket.before) return State::open;
  return ended >> 32U == ticket.before >> 32U ? State::transferred : State::did_not_fit;
}

Outcome MatchTable::wait(Channel& channel, const Ticket& ticket, Deadline deadline) const {
  const std::array peer{ticket.peer};
  const auto has_ended = [&](std::uint64_t ended) { return ended != ticket.before; };
  const Outcome waited = channel.wait_until(memory_->local(), ended_word(ticket), has_ended, deadline, peer);
  if (waited == Outcome::done) channel.local_fence();
  return waited;
}

bool MatchTable::withdraw(Channel& channel, const Ticket& ticket, Deadline deadline) {
  const std::uint64_t mine = state_of(ticket.before & kRoundsMask, ticket.end == End::source ? kOffered : kClaimed);
  if (!take_away(channel, ticket, mine, deadline)) return false;
  const MutexLock lock(mutex_);
  open_.erase(ended_offset(ticket.end, ticket.peer, ticket.key));
  return true;
}

bool MatchTable::take_away(Channel& channel, const Ticket& ticket, std::uint64_t mine, Deadline deadline) {
  const std::uint64_t empty = with_phase(mine, kEmpty);
  const std::uint64_t theirs = with_phase(mine, ticket.end == End::source ? kClaimed : kOffered);
  for (std::uint64_t expected = mine;;) {
    const std::uint64_t one_more = rules_.counts_withdrawals ? kOneWithdrawal : 0;
    const std::uint64_t desired = with_phase(expected, kEmpty) + one_more;
    const Result<std::uint64_t> found = channel.compare_swap(state_word(ticket), expected, desired, deadline);
    if (!found.done()) return false;
    if (found.value == expected) return true;
    const std::uint64_t state = without_withdrawals(found.value);
    // Had the other end come to what was left here, the round would be met, or over.
    if (state == empty || state == theirs) return rules_.knows_late_withdrawals;
    if (state != mine) return false;
    expected = found.value;
  }
}

// ---- Meeting

Outcome MatchTable::meet(Channel& channel, const Ticket& ticket, const MatchPlace& mine, Deadline deadline) {
  assert_that(exists(mine), "what this end offers or claims lies in one of the regions");
  const Outcome left = leave(channel, ticket, mine, deadline);
  if (left != Outcome::done) return left;
  const bool offers = ticket.end == End::source;
  const std::uint64_t empty = state_of(ticket.before & kRoundsMask, kEmpty);
  const std::uint64_t theirs = with_phase(empty, offers ? kClaimed : kOffered);
  for (std::uint64_t expected = empty;;) {
    const bool comes_first = without_withdrawals(expected) == empty;
    const std::uint64_t desired = with_phase(expected, comes_first ? (offers ? kOffered : kClaimed) : kMet);
    const Result<std::uint64_t> found = channel.compare_swap(state_word(ticket), expected, desired, deadline);
    if (!found.done()) return found.status;
    if (found.value == expected) {
      return comes_first ? Outcome::done : transfer(channel, ticket, mine, desired, deadline);
    }
    // The other end has come or withdrawn meanwhile. Anything else has been left by another life of the peer.
    const std::uint64_t state = without_withdrawals(found.value);
    if (state != empty && state != theirs) return Outcome::peer_lost;
    expected = found.value;
  }
}

Outcome MatchTable::leave(Channel& channel, const Ticket& ticket, MatchPlace mine, Deadline deadline) {
  channel.local_fence();  // the end that finds the place finds what the program has stored there
  const RemoteSpan place = place_span(ticket, ticket.end);
  const Outcome written = channel.write(place, LocalSpan(mine), deadline);
  if (written != Outcome::done || !rules_.place_before_match) return written;
  return channel.flush(place.region->peer(), deadline);
}

// Called by the end that came second. No other process touches the round any more.
Outcome MatchTable::transfer(Channel& channel, const Ticket& ticket, const MatchPlace& mine, std::uint64_t met,
                             Deadline deadline) {
  MatchPlace theirs;
  const Outcome read = channel.read(LocalSpan(theirs), place_span(ticket, other(ticket.end)), deadline);
  if (read != Outcome::done) return read;
  const bool fits = theirs.bytes == mine.bytes && exists(theirs);
  if (!rules_.bytes_before_end) (void)tell_both(channel, ticket, fits, deadline);
  const Outcome copied = fits ? copy(channel, ticket, mine, theirs, deadline) : Outcome::done;
  if (copied != Outcome::done) return copied;
  if (!rules_.free_before_end) (void)tell_both(channel, ticket, fits, deadline);
  // An end that is told may begin the next round at once, so the entry is freed before.
  const std::uint64_t round = ticket.before & kRoundsMask;
  const std::uint64_t next = state_of((round + 1) & kRoundsMask, kEmpty);
  const Result<std::uint64_t> freed = channel.compare_swap(state_word(ticket), met, next, deadline);
  const bool tell = rules_.bytes_before_end && rules_.free_before_end;
  return freed.done() && tell ? tell_both(channel, ticket, fits, deadline) : freed.status;
}

Outcome MatchTable::copy(Channel& channel, const Ticket& ticket, const MatchPlace& mine, const MatchPlace& theirs,
                         Deadline deadline) {
  const LocalSpan here = regions_[mine.region]->local().span(mine.offset, mine.bytes);
  const RemoteSpan there = regions_[theirs.region]->of(ticket.peer).span(theirs.offset, theirs.bytes);
  if (ticket.end == End::destination) return channel.read(here, there, deadline);
  return channel.write(there, here, deadline);  // visible there before the peer is told, which is before this end is
}

Outcome MatchTable::tell_both(Channel& channel, const Ticket& ticket, bool fits, Deadline deadline) {
  const bool wraps = (ticket.before & kRoundsMask) == kRoundsMask && rules_.rounds_wrap_alone;
  const std::uint64_t ended = 1 - (wraps ? kCarry : 0) + (fits ? 0 : kOneThatDidNotFit);
  const auto theirs = ended_offset(other(ticket.end), team_.rank(), ticket.key);
  const auto mine = ended_offset(ticket.end, ticket.peer, ticket.key);
  const Result<std::uint64_t> told =
      channel.add_signal(memory_->of(ticket.peer).word<AtomicWord>(theirs), ended, deadline);
  if (!told.done()) return told.status;
  return channel.add_signal(memory_->of(team_.rank()).word<AtomicWord>(mine), ended, deadline).status;
}

// A place that comes from a peer may be any.
bool MatchTable::exists(const MatchPlace& place) const {
  if (place.region >= regions_.size()) return false;
  const std::uint64_t bytes = regions_[place.region]->local().bytes();
  return place.offset <= bytes && place.bytes <= bytes - place.offset;
}

}  // namespace farside::comm
