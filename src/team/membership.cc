#include "team/membership.h"

#include <algorithm>
#include <utility>

#include "farside/base/error.h"

#include "base/assert.h"
#include "base/wire.h"
#include "team/liveness.h"

namespace farside::team {

namespace {

enum class Kind : std::uint8_t { state, admitted, exchanged, lost, returned, silence };

void encode_texts(Encoder& into, const std::vector<std::string>& texts) {
  into.number(static_cast<std::uint32_t>(texts.size()));
  for (const std::string& text : texts) into.text(text);
}

std::vector<std::string> decode_texts(Decoder& from) {
  std::vector<std::string> texts;
  for (auto left = from.number<std::uint32_t>(); left != 0; --left) texts.push_back(from.text());
  return texts;
}

Rank decode_rank(Decoder& from, Rank size) {
  const auto rank = from.number<Rank>();
  from.expect(rank < size, "its rank does not exist");
  return rank;
}

void encode(Encoder& into, const Admitted& admitted) { into.choice(Kind::admitted).number(admitted.rank); }

void encode(Encoder& into, const Exchanged& exchanged) {
  into.choice(Kind::exchanged);
  encode_texts(into, exchanged.blobs);
}

void encode(Encoder& into, const Lost& lost) { into.choice(Kind::lost).number(lost.rank).choice(lost.loss); }

void encode(Encoder& into, const Returned& returned) {
  into.choice(Kind::returned).number(returned.rank);
  encode_texts(into, returned.blobs);
}

void encode(Encoder& into, const SilenceChosen& chosen) { into.choice(Kind::silence).number(chosen.beats); }

void encode(Encoder& into, const TeamState& state) {
  into.choice(Kind::state)
      .number(state.team)
      .number(state.generation)
      .choice(std::uint8_t{state.awaits_all})
      .number(state.epoch)
      .number(state.silent_beats);
  for (const SeatState& seat : state.seats) {
    into.number(seat.incarnation).number(seat.next_incarnation).choice(std::uint8_t{seat.is_present});
  }
  into.number(static_cast<std::uint32_t>(state.exchanges.size()));
  for (const auto& blobs : state.exchanges) encode_texts(into, blobs);
  into.number(static_cast<std::uint32_t>(state.changes.size()));
  for (const Change& change : state.changes) std::visit([&into](const auto& each) { encode(into, each); }, change);
}

std::uint32_t decode_silence(Decoder& from) {
  const auto beats = from.number<std::uint32_t>();
  from.expect(beats >= silent_beats(kMinSilence) && beats <= silent_beats(kMaxSilence),
              "its silence time is out of range");
  return beats;
}

// A loss or a return.
Change decode_change(Decoder& from, Rank size) {
  const Kind kind = from.choice(Kind::returned);
  from.expect(kind == Kind::lost || kind == Kind::returned, "it is neither a loss nor a return");
  const Rank rank = decode_rank(from, size);
  if (kind == Kind::lost) return Lost{rank, from.choice(Loss::evicted)};
  return Returned{rank, decode_texts(from)};
}

TeamState decode_state(Decoder& from, Rank size) {
  TeamState state;
  state.team = from.number<std::uint64_t>();
  state.generation = from.number<std::uint32_t>();
  state.awaits_all = from.flag();
  state.epoch = from.number<std::uint32_t>();
  state.silent_beats = decode_silence(from);
  for (Rank rank = 0; rank < size; ++rank) {
    SeatState& seat = state.seats.emplace_back();
    seat.incarnation = from.number<std::uint16_t>();
    seat.next_incarnation = from.number<std::uint16_t>();
    seat.is_present = from.flag();
  }
  for (auto left = from.number<std::uint32_t>(); left != 0; --left) {
    state.exchanges.push_back(decode_texts(from));
    from.expect(state.exchanges.back().size() == size, "an exchange is not that of all ranks");
  }
  for (auto left = from.number<std::uint32_t>(); left != 0; --left) state.changes.push_back(decode_change(from, size));
  from.expect(state.changes.size() <= state.epoch, "it has more changes than epochs");
  return state;
}

Notice notice_of(std::uint32_t epoch, const Lost& lost) {
  Encoder fields;
  fields.number(epoch).number(lost.rank).choice(lost.loss);
  return {net::FrameKind::lost, fields.take()};
}

Notice notice_of(std::uint32_t epoch, const Returned& returned) {
  Encoder fields;
  fields.number(epoch).number(returned.rank);
  for (const std::string& blob : returned.blobs) fields.text(blob);
  return {net::FrameKind::returned, fields.take()};
}

Decision decode(Decoder& from, Rank size) {
  Decoder ahead = from;
  const Kind kind = ahead.choice(Kind::silence);
  if (kind == Kind::lost || kind == Kind::returned) {
    return std::visit([](const auto& change) -> Decision { return change; }, decode_change(from, size));
  }
  from = ahead;
  if (kind == Kind::state) return decode_state(from, size);
  if (kind == Kind::admitted) return Admitted{decode_rank(from, size)};
  if (kind == Kind::silence) return SilenceChosen{decode_silence(from)};
  return Exchanged{decode_texts(from)};
}

}  // namespace

TeamState rebuilt(TeamState state) {
  ++state.generation;
  state.awaits_all = true;
  return state;
}

std::string encode_decision(const Decision& decision) {
  Encoder bytes;
  std::visit([&bytes](const auto& each) { encode(bytes, each); }, decision);
  return bytes.take();
}

Decision decode_decision(std::string_view bytes, Rank size) {
  Decoder from(bytes, "a decision of the coordinator");
  Decision decision = decode(from, size);
  from.expect_end();
  return decision;
}

void Membership::apply(Decision decision) {
  std::visit([this](auto&& each) { take(std::forward<decltype(each)>(each)); }, std::move(decision));
}

void Membership::expect(bool holds, const std::string& otherwise) const {
  if (!holds) throw Error({"follow", "the coordinator's decisions", otherwise, ""});
}

void Membership::take(TeamState&& state) {
  expect(state.seats.size() == state_.seats.size(), "they are of a team of another size");
  state_ = std::move(state);
}

void Membership::take(const Admitted& admitted) {
  SeatState& seat = state_.seats[admitted.rank];
  expect(!is_present(admitted.rank), "a process is admitted in the place of one that is present");
  seat.incarnation = seat.next_incarnation++;
}

void Membership::take(Exchanged&& exchanged) {
  expect(exchanged.blobs.size() == state_.seats.size(), "an exchange is not that of all ranks");
  for (SeatState& seat : state_.seats) {
    expect(seat.is_present || !is_formed(), "an exchange is complete without a rank that is lost");
  }
  for (SeatState& seat : state_.seats) seat.is_present = true;
  state_.exchanges.push_back(std::move(exchanged.blobs));
}

void Membership::take(const Lost& lost) {
  expect(is_present(lost.rank), "a rank is lost that is not present");
  state_.seats[lost.rank].is_present = false;
  note(lost);
}

void Membership::take(Returned&& returned) {
  expect(is_formed() && !is_present(returned.rank) && returned.blobs.size() == state_.exchanges.size(),
         "a rank is back that was not lost, or did not take part in all exchanges");
  for (std::size_t exchange = 0; exchange < state_.exchanges.size(); ++exchange) {
    state_.exchanges[exchange][returned.rank] = returned.blobs[exchange];
  }
  state_.seats[returned.rank].is_present = true;
  note(std::move(returned));
}

void Membership::note(Change change) {
  ++state_.epoch;
  state_.changes.push_back(std::move(change));
  if (state_.changes.size() > kMaxChanges) state_.changes.pop_front();
}

bool Membership::is_deserted() const {
  return is_formed() && std::ranges::none_of(state_.seats, &SeatState::is_present);
}

std::optional<std::vector<Notice>> Membership::notices_after(std::uint32_t epoch) const {
  const auto& changes = state_.changes;
  assert_that(changes.size() <= state_.epoch, "each change began an epoch");
  if (epoch > state_.epoch || state_.epoch - epoch > changes.size()) return std::nullopt;
  std::vector<Notice> notices;
  while (epoch < state_.epoch) {
    const Change& change = changes[changes.size() - (state_.epoch - epoch)];
    ++epoch;
    notices.push_back(std::visit([epoch](const auto& each) { return notice_of(epoch, each); }, change));
  }
  return notices;
}

}  // namespace farside::team
