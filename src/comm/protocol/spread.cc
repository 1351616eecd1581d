#include "comm/protocol/spread.h"

#include <algorithm>
#include <utility>

#include "farside/base/rounding.h"

#include "base/assert.h"
#include "comm/protocol/lines.h"

namespace farside::comm {

namespace {

using team::Rank;

constexpr std::uint64_t kPiecesBits = 24;

std::uint64_t pieces_word(std::uint64_t number, std::uint64_t pieces) { return number << kPiecesBits | pieces; }
std::uint64_t number_in(std::uint64_t given) { return given >> kPiecesBits; }
std::uint64_t pieces_in(std::uint64_t given) { return given & ((std::uint64_t{1} << kPiecesBits) - 1); }

std::vector<Rank> ranks_in(const std::vector<std::uint64_t>& wanted, Rank size) {
  std::vector<Rank> ranks;
  for (Rank rank = 0; rank < size; ++rank) {
    if ((wanted[rank / 64] >> rank % 64 & 1U) != 0) ranks.push_back(rank);
  }
  return ranks;
}

/// For a number in the tree: 0 is the sender, n + 1 the receiver that is number n among all.
std::uint64_t first_child(std::uint64_t number) { return number * Spread::kFanOut + 1; }
std::uint64_t parent(std::uint64_t number) { return (number - 1) / Spread::kFanOut; }

}  // namespace

// ---- Where things lie: the words a line each, by rank, then the orders.

std::uint64_t Spread::given_offset(Rank sender) const { return kLineBytes * sender; }

std::uint64_t Spread::reached_offset(Rank receiver) const { return given_offset(team_.size()) + kLineBytes * receiver; }

std::uint64_t Spread::wanted_bytes() const { return 8 * ((std::uint64_t{team_.size()} + 63) / 64); }

std::uint64_t Spread::order_offset(Rank sender) const {
  return reached_offset(team_.size()) + in_lines(sizeof(Order) + wanted_bytes()) * sender;
}

std::uint64_t Spread::pieces_of(const Order& order) const {
  return std::max<std::uint64_t>(1, div_ceil(order.bytes, options_.piece_bytes));
}

std::uint64_t Spread::bytes_of_piece(const Order& order, std::uint64_t piece) const {
  return std::min(options_.piece_bytes, order.bytes - piece * options_.piece_bytes);
}

Spread::Spread(team::Team& team, const std::string& name, std::vector<const team::SymmetricRegion*> regions, Ring ring,
               const Options& options, const SpreadRules& rules)
    : team_(team),
      rules_(rules),
      regions_(std::move(regions)),
      ring_(std::move(ring)),
      options_(options),
      memory_(team.allocate(name, order_offset(team.size()))),
      buffer_(options.piece_bytes),
      passing_(team.size()) {}

// ---- The sender

void Spread::begin(Order order, RemoteSpan from, const std::vector<Rank>& wanted) {
  assert_that(order.region < regions_.size() && order.bytes == from.bytes,
              "a broadcast fills a piece of a known region from a source of the same size");
  order.number = sending_.order.number + 1;
  sending_ = Passing{};
  sending_.order = order;
  sending_.wanted.resize(wanted_bytes() / 8);
  for (const Rank rank : wanted) sending_.wanted[rank / 64] |= std::uint64_t{1} << rank % 64;
  for (const Rank rank : wanted) {
    if (sending_.children.size() < kFanOut) sending_.children.push_back({rank});
  }
  source_ = from;
}

std::optional<Outcome> Spread::go_on(Channel& channel) {
  const auto fetch = [&](LocalSpan& piece, std::uint64_t offset) {
    piece = LocalSpan(buffer_.data(), piece.bytes());
    const RemoteSpan from = source_.region->span(source_.offset + offset, piece.bytes());
    return channel.read(piece, from, team_.fabric().in(options_.step_timeout));
  };
  const Outcome passed = pass_on(channel, team_.rank(), sending_, pieces_of(sending_.order), fetch);
  if (passed == Outcome::peer_lost) return passed;
  if (rules_.settles_pieces_in_doubt && !is_through(sending_)) return std::nullopt;
  return rules_.waits_for_the_last ? all_reached() : passed;
}

std::optional<Outcome> Spread::all_reached() const {
  const std::vector<Rank> ranks = ranks_in(sending_.wanted, team_.size());
  std::vector<bool> cut_off(ranks.size() + 1);  // by number in the tree
  Outcome outcome = Outcome::done;
  for (std::uint64_t number = 1; number <= ranks.size(); ++number) {
    const Rank rank = ranks[number - 1];
    if (memory_->local().word<ControlWord>(reached_offset(rank)).load() >= sending_.order.number) continue;
    cut_off[number] = cut_off[parent(number)] || !team_.alive(rank);
    if (!cut_off[number]) return std::nullopt;
    outcome = Outcome::peer_lost;
  }
  return outcome;
}

std::uint64_t Spread::progress() const {
  std::uint64_t sum = 0;
  for (const Child& child : sending_.children) sum += child.pieces;
  for (const Rank rank : ranks_in(sending_.wanted, team_.size())) {
    const std::uint64_t reached = memory_->local().word<ControlWord>(reached_offset(rank)).load();
    if (reached >= sending_.order.number) ++sum;
  }
  return sum;
}

// ---- Receivers

void Spread::serve(Channel& channel) {
  for (Rank sender = 0; sender < team_.size(); ++sender) serve_sender(channel, sender);
}

void Spread::serve_sender(Channel& channel, Rank sender) {
  Passing& passing = passing_[sender];
  const std::uint64_t given = memory_->local().word<ControlWord>(given_offset(sender)).load();
  if (number_in(given) > passing.order.number) {
    channel.local_fence();
    passing = receive_order(sender, number_in(given));
  }
  if (passing.over) return;
  if (!rules_.passes_on_before_telling && tell(channel, sender, passing) != Outcome::done) return;
  const auto fetch = [&](LocalSpan& piece, std::uint64_t offset) {
    piece = regions_[passing.order.region]->local().span(passing.order.offset + offset, piece.bytes());
    return Outcome::done;
  };
  const std::uint64_t pieces = std::min(pieces_in(given), pieces_of(passing.order));  // the sender may say anything
  (void)pass_on(channel, sender, passing, pieces, fetch);
  if (pieces < pieces_of(passing.order) || !is_through(passing)) return;
  const Outcome told = tell(channel, sender, passing);
  passing.over = told == Outcome::done || told == Outcome::peer_lost;  // else it is tried again
}

bool Spread::is_through(const Passing& passing) const {
  return std::ranges::all_of(
      passing.children, [&](const Child& child) { return child.lost || child.pieces == pieces_of(passing.order); });
}

// It comes from a peer. One that makes no sense is ignored; its sender waits until its deadline.
Spread::Passing Spread::receive_order(Rank sender, std::uint64_t number) const {
  Passing passing;
  passing.wanted.resize(wanted_bytes() / 8);
  memory_->local().copy_out(order_offset(sender), std::as_writable_bytes(std::span(&passing.order, 1)));
  memory_->local().copy_out(order_offset(sender) + sizeof(Order), std::as_writable_bytes(std::span(passing.wanted)));
  const std::vector<Rank> ranks = ranks_in(passing.wanted, team_.size());
  const auto own = std::ranges::find(ranks, team_.rank());
  passing.over = passing.order.number != number || own == ranks.end() || !exists(passing.order);
  passing.order.number = number;
  if (passing.over) return passing;
  const std::uint64_t first = first_child(own - ranks.begin() + 1);
  for (std::uint64_t child = first; child < first + kFanOut && child <= ranks.size(); ++child) {
    passing.children.push_back({ranks[child - 1]});
  }
  return passing;
}

bool Spread::exists(const Order& order) const {
  if (order.region >= regions_.size()) return false;
  const std::uint64_t bytes = regions_[order.region]->local().bytes();
  const auto fits = [bytes](std::uint64_t offset, std::uint64_t length) {
    return offset <= bytes && length <= bytes - offset;
  };
  return fits(order.offset, order.bytes) && fits(order.signal, 8) && order.signal % 8 == 0;
}

// The program; then the sender. The program may change its word again, so the word is stored once: by this process,
// since a WRITE whose answer is lost would have to be repeated.
Outcome Spread::tell(Channel& channel, Rank sender, Passing& passing) {
  if (!std::exchange(passing.program_knows, true)) {
    const Region& memory = regions_[passing.order.region]->local();
    memory.word<ControlWord>(passing.order.signal).store(passing.order.value);
    channel.local_fence();
    memory.wake();
  }
  const Deadline deadline = team_.fabric().in(options_.step_timeout);
  const auto reached = memory_->of(sender).word<ControlWord>(reached_offset(team_.rank()));
  Outcome told = channel.write_signal(reached, passing.order.number, deadline);
  if (told == Outcome::done) told = ring_(channel, sender, deadline);
  return told == Outcome::done ? channel.flush(sender, deadline) : told;
}

// ---- To children

// A piece that could not be given is tried the next time. Fails when a piece cannot be fetched.
Outcome Spread::pass_on(Channel& channel, Rank sender, Passing& passing, std::uint64_t pieces, const Fetch& fetch) {
  for (std::uint64_t at = 0; at < pieces; ++at) {
    const auto wants_it = [at](const Child& child) { return !child.lost && child.pieces == at; };
    if (std::ranges::none_of(passing.children, wants_it)) continue;
    LocalSpan piece(nullptr, bytes_of_piece(passing.order, at));
    if (const Outcome fetched = fetch(piece, at * options_.piece_bytes); fetched != Outcome::done) return fetched;
    for (Child& child : passing.children) {
      if (wants_it(child)) give(channel, sender, passing, child, piece);
    }
  }
  return Outcome::done;
}

void Spread::give(Channel& channel, Rank sender, const Passing& passing, Child& child, LocalSpan piece) {
  const Deadline deadline = team_.fabric().in(options_.step_timeout);
  const RemoteRegion& there = memory_->of(child.rank);
  const Order& order = passing.order;
  Outcome outcome = Outcome::done;
  const auto then = [&outcome](auto step) {
    if (outcome == Outcome::done) outcome = step();
  };
  if (child.in_doubt && rules_.settles_pieces_in_doubt) {
    const std::uint64_t before = child.pieces;
    then([&] { return settle(channel, sender, order, child, deadline); });
    child.lost = outcome == Outcome::peer_lost;
    if (outcome != Outcome::done || child.pieces != before) return;  // else this piece is missing there
  }
  if (child.pieces == 0) {
    Order sent = order;
    std::vector<std::uint64_t> wanted = passing.wanted;
    then([&] { return channel.write(there.span(order_offset(sender), sizeof sent), LocalSpan(sent), deadline); });
    then([&] {
      return channel.write(there.span(order_offset(sender) + sizeof sent, wanted_bytes()),
                           LocalSpan(wanted.data(), wanted_bytes()), deadline);
    });
  }
  const RemoteRegion& memory = regions_[order.region]->of(child.rank);
  const std::uint64_t offset = order.offset + child.pieces * options_.piece_bytes;
  then([&] { return channel.write(memory.span(offset, piece.bytes()), piece, deadline); });
  const auto given = there.word<ControlWord>(given_offset(sender));
  const std::uint64_t value = pieces_word(order.number, child.pieces + 1);
  then([&] {
    return rules_.pieces_before_given ? channel.write_signal(given, value, deadline)
                                      : channel.store(given, value, deadline);
  });
  then([&] { return ring_(channel, child.rank, deadline); });
  then([&] { return channel.flush(child.rank, deadline); });  // this may be the last call for long
  if (outcome == Outcome::done) ++child.pieces;
  child.in_doubt = outcome != Outcome::done;
  child.lost = outcome == Outcome::peer_lost;
}

// A failed attempt may have reached the child, or may do so later. A child that has all pieces tells its program, which
// then owns the memory: nothing may be written there again. And a part of an old order that lands over the next order
// would change that order.
Outcome Spread::settle(Channel& channel, Rank sender, const Order& order, Child& child, Deadline deadline) {
  if (const Outcome flushed = channel.flush(child.rank, deadline); flushed != Outcome::done) return flushed;
  const Result<std::uint64_t> given =
      channel.load(memory_->of(child.rank).word<ControlWord>(given_offset(sender)), deadline);
  if (!given.done()) return given.status;
  if (number_in(given.value) == order.number) {
    Outcome rung = ring_(channel, child.rank, deadline);  // the attempt that failed may not have
    if (rung == Outcome::done) rung = channel.flush(child.rank, deadline);
    if (rung != Outcome::done) return rung;
    child.pieces = std::min(pieces_in(given.value), pieces_of(order));
  }
  child.in_doubt = false;
  return Outcome::done;
}

}  // namespace farside::comm
