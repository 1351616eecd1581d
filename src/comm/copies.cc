#include "comm/copies.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace farside::comm {

namespace {

using team::Rank;

template <class... Cases>
struct Match : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Match(Cases...) -> Match<Cases...>;  // clang-tidy 14 does not find it by itself

void post(Batch& batch, Copy::Kind kind, const Part& part) {
  if (kind == Copy::Kind::put) return batch.write(part.remote, part.local);
  batch.read(part.local, part.remote);
}

Status signal(Channel& channel, const Notice& notice, Deadline deadline) {
  return std::visit(
      Match{[](const NoNotice&) { return Status{}; },
            [&](const SetWord& set) {
              return status_with(channel.write_signal(set.word, set.value, deadline), set.word.region->peer());
            },
            [&](const AddToWord& add) {
              return status_with(channel.add_signal(add.word, add.addend, deadline).status, add.word.region->peer());
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

Status give(Channel& channel, const Notice& notice, Deadline deadline) {
  const Status told = signal(channel, notice, deadline);
  const std::optional<Rank> unflushed = must_be_flushed(notice);
  return told.done() && unflushed ? status_with(channel.flush(*unflushed, deadline), *unflushed) : told;
}

std::uint64_t Copy::bytes() const {
  return std::accumulate(parts.begin(), parts.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const Part& part) { return sum + part.remote.bytes; });
}

Made make_copies(Channel& channel, std::span<const Copy> copies, const NextDeadline& next) {
  std::map<Rank, Batch> under_way;  // a rank each: so it is known which one is lost when one fails
  for (const Copy& copy : copies) {
    for (const Part& part : copy.parts)
      post(under_way.try_emplace(peer_of(part), channel).first->second, copy.kind, part);
  }
  Made made;
  Deadline deadline = next();
  const auto note = [&](Rank rank, Outcome outcome) {
    if (outcome != Outcome::timed_out) return;
    made.silent.insert(rank);
    deadline = next();  // the time of the others was not theirs
  };
  std::map<Rank, Outcome> outcomes;
  for (auto& [rank, batch] : under_way) {
    const Outcome moved = batch.wait(deadline);
    const Outcome flushed = channel.flush(rank, deadline);  // after a failure too: it tells of that, once
    outcomes[rank] = moved == Outcome::done ? flushed : moved;
    note(rank, outcomes[rank]);
  }
  made.status.resize(copies.size());
  for (std::size_t at = 0; at < copies.size(); ++at) {
    Status& status = made.status[at];
    for (const Part& part : copies[at].parts) {
      if (status.done()) status = status_with(outcomes[peer_of(part)], peer_of(part));
    }
    if (!status.done()) continue;
    const std::optional<Rank> told = target_of(copies[at].notice);
    const bool is_silent = told && made.silent.contains(*told);
    status = is_silent ? Status{Outcome::timed_out, {}} : signal(channel, copies[at].notice, deadline);
    if (told && !is_silent) note(*told, status.outcome);
  }
  std::map<Rank, Outcome> flushed;  // as in give, once for each rank
  for (std::size_t at = 0; at < copies.size(); ++at) {
    const std::optional<Rank> unflushed = must_be_flushed(copies[at].notice);
    if (!unflushed || !made.status[at].done()) continue;
    if (!flushed.contains(*unflushed)) {
      flushed[*unflushed] = channel.flush(*unflushed, deadline);
      note(*unflushed, flushed[*unflushed]);
    }
    made.status[at] = status_with(flushed[*unflushed], *unflushed);
  }
  return made;
}

Made make_in_pieces(Channel& channel, const Copy& copy, const NextDeadline& next) {
  Copy piece{copy.kind, {}, {}};
  std::uint64_t bytes = 0;
  const auto move = [&] {
    bytes = 0;
    Made made = make_copies(channel, {&piece, 1}, next);
    piece.parts.clear();
    return made;
  };
  for (const Part& part : copy.parts) {
    for (std::uint64_t at = 0; at < part.remote.bytes;) {
      const std::uint64_t length = std::min(kPieceBytes - bytes, part.remote.bytes - at);
      piece.parts.push_back({part.remote.region->span(part.remote.offset + at, length), part.local.piece(at, length)});
      at += length;
      bytes += length;
      if (bytes < kPieceBytes) continue;
      if (Made moved = move(); !moved.status.front().done()) return moved;
    }
  }
  piece.notice = copy.notice;
  return move();
}

}  // namespace farside::comm
