#include "comm/copies.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace farside {

namespace {

template <class... Cases>
struct Match : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Match(Cases...) -> Match<Cases...>;  // clang-tidy 14 does not find it by itself

Rank peer_of(const Part& part) { return part.remote.region->peer(); }

void post(Batch& batch, Copy::Kind kind, const Part& part) {
  if (kind == Copy::Kind::put) return batch.write(part.remote, part.local);
  batch.read(part.local, part.remote);
}

Ended signal(Channel& channel, const Notice& notice, Deadline deadline) {
  return std::visit(
      Match{[](const NoNotice&) { return Ended{}; },
            [&](const SetWord& set) {
              return ended_with(channel.write_signal(set.word, set.value, deadline), set.word.region->peer());
            },
            [&](const AddToWord& add) {
              return ended_with(channel.add_signal(add.word, add.addend, deadline).outcome, add.word.region->peer());
            }},
      notice);
}

// At which rank. A WRITE that was not flushed is lost when its link is replaced, and its receiver waits for ever; an
// atomic has taken effect when it returns.
std::optional<Rank> must_be_flushed(const Notice& notice) {
  return std::holds_alternative<SetWord>(notice) ? target_of(notice) : std::nullopt;
}

}  // namespace

std::optional<Rank> target_of(const Notice& notice) {
  return std::visit(Match{[](const NoNotice&) { return std::optional<Rank>(); },
                          [](const auto& told) { return std::optional<Rank>(told.word.region->peer()); }},
                    notice);
}

Ended give(Channel& channel, const Notice& notice, Deadline deadline) {
  const Ended told = signal(channel, notice, deadline);
  const std::optional<Rank> unflushed = must_be_flushed(notice);
  return told.done() && unflushed ? ended_with(channel.flush(*unflushed, deadline), *unflushed) : told;
}

std::uint64_t Copy::bytes() const {
  return std::accumulate(parts.begin(), parts.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const Part& part) { return sum + part.remote.bytes; });
}

std::vector<Ended> make_copies(Channel& channel, std::span<const Copy> copies, Deadline deadline) {
  std::map<Rank, Batch> under_way;  // a rank each: so it is known who is lost when one fails
  for (const Copy& copy : copies) {
    for (const Part& part : copy.parts)
      post(under_way.try_emplace(peer_of(part), channel).first->second, copy.kind, part);
  }
  std::map<Rank, Outcome> outcomes;
  for (auto& [rank, batch] : under_way) {
    const Outcome moved = batch.wait(deadline);
    outcomes[rank] = moved == Outcome::done ? channel.flush(rank, deadline) : moved;
  }
  std::vector<Ended> ended(copies.size());
  for (std::size_t at = 0; at < copies.size(); ++at) {
    for (const Part& part : copies[at].parts) {
      if (ended[at].done()) ended[at] = ended_with(outcomes[peer_of(part)], peer_of(part));
    }
    if (ended[at].done()) ended[at] = signal(channel, copies[at].notice, deadline);
  }
  std::map<Rank, Outcome> flushed;  // as in give, once for each rank
  for (std::size_t at = 0; at < copies.size(); ++at) {
    const std::optional<Rank> unflushed = must_be_flushed(copies[at].notice);
    if (!unflushed || !ended[at].done()) continue;
    if (!flushed.contains(*unflushed)) flushed[*unflushed] = channel.flush(*unflushed, deadline);
    ended[at] = ended_with(flushed[*unflushed], *unflushed);
  }
  return ended;
}

Ended make_in_pieces(Channel& channel, const Copy& copy, const NextDeadline& next) {
  Copy piece{copy.kind, {}, {}};
  std::uint64_t bytes = 0;
  const auto move = [&] {
    bytes = 0;
    const Ended ended = make_copies(channel, {&piece, 1}, next()).front();
    piece.parts.clear();
    return ended;
  };
  for (const Part& part : copy.parts) {
    for (std::uint64_t at = 0; at < part.remote.bytes;) {
      const std::uint64_t length = std::min(kPieceBytes - bytes, part.remote.bytes - at);
      piece.parts.push_back({part.remote.region->span(part.remote.offset + at, length), part.local.piece(at, length)});
      at += length;
      bytes += length;
      if (bytes < kPieceBytes) continue;
      if (const Ended moved = move(); !moved.done()) return moved;
    }
  }
  if (const Ended moved = move(); !moved.done()) return moved;
  return give(channel, copy.notice, next());
}

}  // namespace farside
