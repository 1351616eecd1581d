#include "farside/comm/collectives.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "farside/base/error.h"
#include "farside/base/rounding.h"

#include "comm/collective_rounds.h"

namespace farside::comm {

namespace {

using Bytes = std::span<std::byte>;

/// `bytes` cut into `count` pieces of `piece_bytes`; what is missing is missing at the end.
std::vector<Bytes> cut(Bytes bytes, std::size_t count, std::uint64_t piece_bytes) {
  std::vector<Bytes> pieces(count);
  for (std::size_t each = 0; each < count; ++each) pieces[each] = part(bytes, each * piece_bytes, piece_bytes);
  return pieces;
}

/// Pieces of these lengths, one behind the other. Throws UsageError when they are not as long as `bytes` together.
std::vector<Bytes> cut(Bytes bytes, const std::vector<std::uint64_t>& lengths, std::size_t members, const char* tried) {
  const std::uint64_t all = std::accumulate(lengths.begin(), lengths.end(), std::uint64_t{0});
  if (lengths.size() != members || all != bytes.size()) {
    throw UsageError({tried, std::to_string(bytes.size()) + " bytes",
                      std::to_string(lengths.size()) + " lengths are given, together " + std::to_string(all) + " bytes",
                      "give a length for each of the " + std::to_string(members) + " members"});
  }
  std::vector<Bytes> pieces;
  for (std::uint64_t at = 0; const std::uint64_t length : lengths) {
    pieces.push_back(bytes.subspan(at, length));
    at += length;
  }
  return pieces;
}

/// Throws UsageError unless `whole` has a piece of `piece` bytes for each of the members.
void check_pieces(const char* tried, Bytes whole, std::uint64_t piece, std::size_t members) {
  if (whole.size() == members * piece) return;
  throw UsageError({tried, std::to_string(piece) + " bytes for each member",
                    "all of them together have " + std::to_string(whole.size()),
                    "give " + std::to_string(members) + " times"});
}

}  // namespace

Collectives::Collectives(Comm& comm, std::vector<team::Rank> members)
    : impl_(std::make_unique<Impl>(comm, std::move(members))) {}
Collectives::~Collectives() = default;

std::uint64_t Collectives::piece_bytes() const { return impl_->piece_bytes(); }

// ---- Moving

Collectives::Pending Collectives::begin_broadcasting(Channel& channel, team::Rank root, Bytes values,
                                                     Deadline deadline) {
  const std::size_t place = impl_->place_of(root, "broadcast from");
  Transfer transfer = impl_->nothing(values.size());
  if (place == impl_->self()) {
    transfer.out.assign(impl_->count(), values);
  } else {
    transfer.in[place] = values;
  }
  return impl_->reported(impl_->begin_transfer(channel, std::move(transfer), deadline));
}

Collectives::Pending Collectives::begin_scattering(Channel& channel, team::Rank root, Bytes from, Bytes mine,
                                                   Deadline deadline) {
  const std::size_t place = impl_->place_of(root, "scatter from");
  Transfer transfer = impl_->nothing(mine.size());
  if (place == impl_->self()) {
    check_pieces("scatter", from, mine.size(), impl_->count());
    transfer.out = cut(from, impl_->count(), mine.size());
  }
  transfer.in[place] = mine;
  return impl_->reported(impl_->begin_transfer(channel, std::move(transfer), deadline));
}

Collectives::Pending Collectives::begin_gathering(Channel& channel, std::optional<team::Rank> root, Bytes mine,
                                                  Bytes all, Deadline deadline) {
  const std::size_t count = impl_->count();
  const auto place = root ? std::optional(impl_->place_of(*root, "gather at")) : std::nullopt;
  Transfer transfer = impl_->nothing(mine.size());
  transfer.out = impl_->sent_to(place, mine);
  if (place.value_or(impl_->self()) == impl_->self()) {
    check_pieces("gather", all, mine.size(), count);
    transfer.in = cut(all, count, mine.size());
  }
  return impl_->reported(impl_->begin_transfer(channel, std::move(transfer), deadline));
}

Collectives::Pending Collectives::begin_gathering_parts(Channel& channel, Bytes mine,
                                                        const std::vector<std::uint64_t>& lengths, Bytes all,
                                                        Deadline deadline) {
  Transfer transfer = impl_->nothing(0);
  transfer.in = cut(all, lengths, impl_->count(), "gather");
  if (lengths[impl_->self()] != mine.size()) {
    throw UsageError({"gather", std::to_string(mine.size()) + " bytes of this member",
                      "its length is given as " + std::to_string(lengths[impl_->self()]), "give the same"});
  }
  transfer.out.assign(impl_->count(), mine);
  transfer.longest = *std::ranges::max_element(lengths);
  return impl_->reported(impl_->begin_transfer(channel, std::move(transfer), deadline));
}

Collectives::Pending Collectives::begin_exchanging(Channel& channel, Bytes from, Bytes into, Deadline deadline) {
  const std::size_t count = impl_->count();
  const std::uint64_t piece = into.size() / count;
  check_pieces("exchange", from, piece, count);
  check_pieces("exchange", into, piece, count);
  Transfer transfer = impl_->nothing(piece);
  transfer.out = cut(from, count, piece);
  transfer.in = cut(into, count, piece);
  return impl_->reported(impl_->begin_transfer(channel, std::move(transfer), deadline));
}

// First they agree on the longest piece between any two of them.
Collectives::Pending Collectives::begin_exchanging_parts(Channel& channel, Bytes from,
                                                         const std::vector<std::uint64_t>& to_each, Bytes into,
                                                         const std::vector<std::uint64_t>& from_each,
                                                         Deadline deadline) {
  Transfer transfer = impl_->nothing(0);
  transfer.out = cut(from, to_each, impl_->count(), "exchange");
  transfer.in = cut(into, from_each, impl_->count(), "exchange");
  if (to_each[impl_->self()] != from_each[impl_->self()]) {
    throw UsageError({"exchange", std::to_string(to_each[impl_->self()]) + " bytes of this member with itself",
                      "it expects " + std::to_string(from_each[impl_->self()]), "give both the same"});
  }
  const auto longest = std::make_shared<std::uint64_t>(*std::ranges::max_element(to_each));
  Pending agreed = impl_->begin_small(channel, bytes_of(std::span(longest.get(), 1)),
                                      on_elements<std::span<std::uint64_t>>(Max()), true, deadline);
  return impl_->reported(Impl::followed(std::move(agreed), [=, this](Channel& by, Deadline until) {
    Transfer sized = transfer;
    sized.longest = *longest;
    return impl_->begin_transfer(by, std::move(sized), until);
  }));
}

// ---- Combining

Collectives::Pending Collectives::begin_combining(Channel& channel, Bytes values, const Combine& combine,
                                                  std::optional<team::Rank> root, Deadline deadline) {
  const auto place = root ? std::optional(impl_->place_of(*root, "reduce to")) : std::nullopt;
  const bool is_wanted = place.value_or(impl_->self()) == impl_->self();
  if (values.size() <= kSmallBytes) {
    return impl_->reported(impl_->begin_small(channel, values, combine, is_wanted, deadline));
  }
  // Each member gets all members' values of its slice, combines them, and sends the result to all that want it.
  const std::size_t count = impl_->count();
  const std::uint64_t slice_bytes = div_ceil(values.size() / combine.element_bytes, count) * combine.element_bytes;
  const std::vector<Bytes> slices = cut(values, count, slice_bytes);
  const Bytes own = slices[impl_->self()];
  // Values stay as they are where the result is not wanted.
  const auto elsewhere = std::make_shared<std::vector<std::byte>>(root ? own.size() : 0);
  const Bytes result = root ? Bytes(*elsewhere) : own;
  Pending scattered = impl_->begin_reducing(channel, slices, slice_bytes, result, combine, deadline);
  return impl_->reported(Impl::followed(std::move(scattered), [=, this](Channel& by, Deadline until) {
    Transfer gathering = impl_->nothing(slice_bytes, combine.element_bytes);
    gathering.out = impl_->sent_to(place, result);
    if (is_wanted) gathering.in = slices;
    (void)elsewhere;  // is kept
    return impl_->begin_transfer(by, std::move(gathering), until);
  }));
}

Collectives::Pending Collectives::begin_combining_pieces(Channel& channel, Bytes values, Bytes mine,
                                                         const Combine& combine, Deadline deadline) {
  check_pieces("reduce and scatter", values, mine.size(), impl_->count());
  const std::vector<Bytes> pieces = cut(values, impl_->count(), mine.size());
  return impl_->reported(impl_->begin_reducing(channel, pieces, mine.size(), mine, combine, deadline));
}

Collectives::Pending Collectives::begin_scanning(Channel& channel, Bytes values, const Combine& combine,
                                                 bool includes_own, Deadline deadline) {
  const std::size_t self = impl_->self();
  Transfer transfer = impl_->nothing(values.size(), combine.element_bytes);
  for (std::size_t behind = self + 1; behind < impl_->count(); ++behind) transfer.out[behind] = values;
  transfer.take = [=, this, bytes = transfer.round_bytes](std::uint64_t number, std::uint64_t at) {
    const Bytes round = part(values, at, bytes);
    impl_->reduce_round(number, self + (includes_own ? 1 : 0), round, round, combine);
  };
  return impl_->reported(impl_->begin_transfer(channel, std::move(transfer), deadline));
}

}  // namespace farside::comm
