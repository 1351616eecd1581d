// collectives.h — what the ranks of a group do together: broadcast, scatter, gather, all_gather, all_to_all, reduce,
// all_reduce, reduce_scatter, scan.
//
// Each is begun, and later ended, which waits for it; or both at once. All members begin the same ones in the same
// order. An operation that fits into one piece (see kSmallBytes and piece_bytes) proceeds without a call by any member
// and can be ended in any order. A larger one proceeds so for its first part only; end() does the rest, in the same
// order at all members. At most 4 are under way.
//
// Reductions combine in the order of the ranks, so that all members get the same bits, and the same ones each time. The
// operator is associative; it need not commute.
//
// Memory of its peers is in use until all members' service threads are done: a member that destroys its Collectives
// before that may keep others from ending what they have begun. So each waits for Comm::issued, and all meet.
//
// A member's death ends every wait with peer_lost and its rank. After a failure the group does not meet again.
// (A failure with `outside` is none: the result is in its place, but what this member had written to ranks outside the
// group before may be lost, as barrier.h says.)
//
// An operator that throws fails the reduction: begin or end throws the same at the member that ran it, on whichever of
// its threads that was. The others' waits end at their deadlines, and the group does not meet again.
//
// Thread safety: one thread at a time; threads that reduce at once have a Collectives each. Buffers stay, and the
// program leaves them alone, until end() has returned, or the Pending has gone without it. Only begin and end use them:
// what the service thread sends later is its own copy, so after a failure, too, they may go.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "farside/comm/comm.h"
#include "farside/comm/sendable.h"

namespace farside::comm {

/// Operators besides std::plus, multiplies, bit_and, bit_or and bit_xor.
struct Min {
  template <class T>
  T operator()(const T& a, const T& b) const {
    return std::min(a, b);
  }
};
struct Max {
  template <class T>
  T operator()(const T& a, const T& b) const {
    return std::max(a, b);
  }
};

/// Elements one behind the other: a vector, an array, a span.
template <class R>
concept SendableRange =
    std::ranges::contiguous_range<R> && std::ranges::sized_range<R> && Sendable<std::ranges::range_value_t<R>>;
/// The same, to write to, in memory that outlives the call.
template <class R>
concept ReceivableRange = SendableRange<R> && std::ranges::borrowed_range<R> &&
    !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>>;
template <class A, class B>
concept SameElements = std::same_as<std::ranges::range_value_t<A>, std::ranges::range_value_t<B>>;

class Collectives {
 public:
  /// Reductions up to this size meet once; larger ones are cut into a slice for each member to reduce.
  static constexpr std::uint64_t kSmallBytes = 8192;

  /// An operation that was begun.
  class [[nodiscard]] Pending {
   public:
    /// True when all members have begun it: end() does not wait then, unless it is larger than a piece.
    [[nodiscard]] bool ended() const { return ended_(); }
    /// When it ends with done, or with `outside`, the result is in its place. Once for each.
    Status end(Channel& channel, Deadline deadline) { return end_(channel, deadline); }

   private:
    friend class Collectives;
    std::function<bool()> ended_;
    std::function<Status(Channel&, Deadline)> end_;
  };

  /// Collective over the team: each rank with the ranks of its own group, ascending; none for all of the team. `comm`
  /// outlives this. Throws UsageError for a group that this rank is not in.
  explicit Collectives(Comm& comm, std::vector<team::Rank> members = {});
  ~Collectives();
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;

  /// The most bytes that one member sends another at once.
  [[nodiscard]] std::uint64_t piece_bytes() const;

  // Begin. All members give the same sizes, but for what one member has for another, where both give the same.
  // UsageError is thrown when 4 are under way, for sizes that do not fit, and a root that is no member.

  /// In `values`, what `root` has there.
  template <ReceivableRange Values>
  Pending begin_broadcast(Channel& channel, team::Rank root, Values&& values, Deadline deadline) {
    return begin_broadcasting(channel, root, bytes_of(values), deadline);
  }
  /// In `mine`, this member's one of the equal pieces of `from` at `root`. The others' `from` is not looked at.
  template <SendableRange From, ReceivableRange Mine>
  requires SameElements<From, Mine> Pending begin_scatter(Channel& channel, team::Rank root, const From& from,
                                                          Mine&& mine, Deadline deadline) {
    return begin_scattering(channel, root, bytes_of(from), bytes_of(mine), deadline);
  }
  /// In `all` at `root`, one after the other, what the members have in `mine`. The others' `all` is not looked at.
  template <SendableRange Mine, ReceivableRange All>
  requires SameElements<Mine, All> Pending begin_gather(Channel& channel, team::Rank root, const Mine& mine, All&& all,
                                                        Deadline deadline) {
    return begin_gathering(channel, root, bytes_of(mine), bytes_of(all), deadline);
  }
  /// The same in `all` of each member.
  template <SendableRange Mine, ReceivableRange All>
  requires SameElements<Mine, All> Pending begin_all_gather(Channel& channel, const Mine& mine, All&& all,
                                                            Deadline deadline) {
    return begin_gathering(channel, {}, bytes_of(mine), bytes_of(all), deadline);
  }
  /// The same where members have different numbers of elements, which all know: `lengths`, by member.
  template <SendableRange Mine, ReceivableRange All>
  requires SameElements<Mine, All> Pending begin_all_gather(Channel& channel, const Mine& mine,
                                                            std::span<const std::size_t> lengths, All&& all,
                                                            Deadline deadline) {
    return begin_gathering_parts(channel, bytes_of(mine), in_bytes<Mine>(lengths), bytes_of(all), deadline);
  }
  /// Sends each member one of the equal pieces of `from`; receives into `into`, one after the other, the pieces from
  /// each.
  template <SendableRange From, ReceivableRange Into>
  requires SameElements<From, Into> Pending begin_all_to_all(Channel& channel, const From& from, Into&& into,
                                                             Deadline deadline) {
    return begin_exchanging(channel, bytes_of(from), bytes_of(into), deadline);
  }
  /// The same for pieces of different numbers of elements: those to each member, and those from each. Only end() sends.
  template <SendableRange From, ReceivableRange Into>
  requires SameElements<From, Into> Pending begin_all_to_all(Channel& channel, const From& from,
                                                             std::span<const std::size_t> to_each, Into&& into,
                                                             std::span<const std::size_t> from_each,
                                                             Deadline deadline) {
    return begin_exchanging_parts(channel, bytes_of(from), in_bytes<From>(to_each), bytes_of(into),
                                  in_bytes<From>(from_each), deadline);
  }

  /// In `values`, element by element, what all members have there.
  template <ReceivableRange Values, class Operator = std::plus<>>
  Pending begin_all_reduce(Channel& channel, Values&& values, Deadline deadline, Operator combine = {}) {
    return begin_combining(channel, bytes_of(values), on_elements<Values>(combine), {}, deadline);
  }
  /// The same at `root`; the other members' values stay as they are.
  template <ReceivableRange Values, class Operator = std::plus<>>
  Pending begin_reduce(Channel& channel, team::Rank root, Values&& values, Deadline deadline, Operator combine = {}) {
    return begin_combining(channel, bytes_of(values), on_elements<Values>(combine), root, deadline);
  }
  /// In `mine`, this member's one of the equal pieces of what all_reduce of `values` gives. `values` stay as they are.
  template <SendableRange Values, ReceivableRange Mine, class Operator = std::plus<>>
  requires SameElements<Values, Mine> Pending begin_reduce_scatter(Channel& channel, const Values& values, Mine&& mine,
                                                                   Deadline deadline, Operator combine = {}) {
    return begin_combining_pieces(channel, bytes_of(values), bytes_of(mine), on_elements<Values>(combine), deadline);
  }
  /// In `values`, element by element, what the members up to this one have there. Each member sends all its values to
  /// those behind it.
  template <ReceivableRange Values, class Operator = std::plus<>>
  Pending begin_scan(Channel& channel, Values&& values, Deadline deadline, Operator combine = {}) {
    return begin_scanning(channel, bytes_of(values), on_elements<Values>(combine), true, deadline);
  }
  /// The same without this one; the first member's values stay as they are.
  template <ReceivableRange Values, class Operator = std::plus<>>
  Pending begin_exclusive_scan(Channel& channel, Values&& values, Deadline deadline, Operator combine = {}) {
    return begin_scanning(channel, bytes_of(values), on_elements<Values>(combine), false, deadline);
  }

  // Begin and end.

  template <ReceivableRange Values>
  Status broadcast(Channel& channel, team::Rank root, Values&& values, Deadline deadline) {
    return begin_broadcast(channel, root, std::forward<Values>(values), deadline).end(channel, deadline);
  }
  template <SendableRange From, ReceivableRange Mine>
  Status scatter(Channel& channel, team::Rank root, const From& from, Mine&& mine, Deadline deadline) {
    return begin_scatter(channel, root, from, std::forward<Mine>(mine), deadline).end(channel, deadline);
  }
  template <SendableRange Mine, ReceivableRange All>
  Status gather(Channel& channel, team::Rank root, const Mine& mine, All&& all, Deadline deadline) {
    return begin_gather(channel, root, mine, std::forward<All>(all), deadline).end(channel, deadline);
  }
  template <SendableRange Mine, ReceivableRange All>
  Status all_gather(Channel& channel, const Mine& mine, All&& all, Deadline deadline) {
    return begin_all_gather(channel, mine, std::forward<All>(all), deadline).end(channel, deadline);
  }
  template <SendableRange Mine, ReceivableRange All>
  Status all_gather(Channel& channel, const Mine& mine, std::span<const std::size_t> lengths, All&& all,
                    Deadline deadline) {
    return begin_all_gather(channel, mine, lengths, std::forward<All>(all), deadline).end(channel, deadline);
  }
  template <SendableRange From, ReceivableRange Into>
  Status all_to_all(Channel& channel, const From& from, Into&& into, Deadline deadline) {
    return begin_all_to_all(channel, from, std::forward<Into>(into), deadline).end(channel, deadline);
  }
  template <SendableRange From, ReceivableRange Into>
  Status all_to_all(Channel& channel, const From& from, std::span<const std::size_t> to_each, Into&& into,
                    std::span<const std::size_t> from_each, Deadline deadline) {
    return begin_all_to_all(channel, from, to_each, std::forward<Into>(into), from_each, deadline)
        .end(channel, deadline);
  }
  template <ReceivableRange Values, class Operator = std::plus<>>
  Status all_reduce(Channel& channel, Values&& values, Deadline deadline, Operator combine = {}) {
    return begin_all_reduce(channel, std::forward<Values>(values), deadline, combine).end(channel, deadline);
  }
  template <ReceivableRange Values, class Operator = std::plus<>>
  Status reduce(Channel& channel, team::Rank root, Values&& values, Deadline deadline, Operator combine = {}) {
    return begin_reduce(channel, root, std::forward<Values>(values), deadline, combine).end(channel, deadline);
  }
  template <SendableRange Values, ReceivableRange Mine, class Operator = std::plus<>>
  Status reduce_scatter(Channel& channel, const Values& values, Mine&& mine, Deadline deadline, Operator combine = {}) {
    return begin_reduce_scatter(channel, values, std::forward<Mine>(mine), deadline, combine).end(channel, deadline);
  }
  template <ReceivableRange Values, class Operator = std::plus<>>
  Status scan(Channel& channel, Values&& values, Deadline deadline, Operator combine = {}) {
    return begin_scan(channel, std::forward<Values>(values), deadline, combine).end(channel, deadline);
  }
  template <ReceivableRange Values, class Operator = std::plus<>>
  Status exclusive_scan(Channel& channel, Values&& values, Deadline deadline, Operator combine = {}) {
    return begin_exclusive_scan(channel, std::forward<Values>(values), deadline, combine).end(channel, deadline);
  }

 private:
  using Bytes = std::span<std::byte>;
  struct Combine {
    std::size_t element_bytes;
    std::function<void(Bytes into, std::span<const std::byte> from)> all;
  };
  struct Transfer;

  /// A source is not written to, though the fabric has one kind of span for sources and destinations.
  template <class Range>
  static Bytes bytes_of(Range&& range) {
    using T = std::ranges::range_value_t<Range>;
    return std::as_writable_bytes(std::span(const_cast<T*>(std::ranges::data(range)), std::ranges::size(range)));
  }
  template <class Range>
  static std::vector<std::uint64_t> in_bytes(std::span<const std::size_t> lengths) {
    std::vector<std::uint64_t> bytes(lengths.begin(), lengths.end());
    for (std::uint64_t& each : bytes) each *= sizeof(std::ranges::range_value_t<Range>);
    return bytes;
  }
  template <class Range, class Operator>
  static Combine on_elements(Operator combine) {
    using T = std::ranges::range_value_t<Range>;
    return {sizeof(T), [combine](Bytes into, std::span<const std::byte> from) {
              // Most of them a constant number at a time, which compilers turn into vector instructions.
              constexpr std::size_t kMany = std::max<std::size_t>(128 / sizeof(T), 1);
              std::size_t at = 0;
              for (; at + kMany * sizeof(T) <= into.size(); at += kMany * sizeof(T)) {
                combine_elements<T, kMany>(into.data() + at, from.data() + at, combine);
              }
              for (; at < into.size(); at += sizeof(T))
                combine_elements<T, 1>(into.data() + at, from.data() + at, combine);
            }};
  }
  template <class T, std::size_t kCount, class Operator>
  static void combine_elements(std::byte* into, const std::byte* from, Operator combine) {
    std::array<T, kCount> earlier;
    std::array<T, kCount> later;
    std::memcpy(earlier.data(), into, sizeof earlier);
    std::memcpy(later.data(), from, sizeof later);
    for (std::size_t each = 0; each < kCount; ++each) earlier[each] = combine(earlier[each], later[each]);
    std::memcpy(into, earlier.data(), sizeof earlier);
  }

  // Each serves several operations: combining serves reduce and all_reduce, combining_pieces reduce_scatter, exchanging
  // all_to_all. A new one is also listed at the top, in docs/comm.md and in docs/protocols/comm.md.
  Pending begin_broadcasting(Channel& channel, team::Rank root, Bytes values, Deadline deadline);
  Pending begin_scattering(Channel& channel, team::Rank root, Bytes from, Bytes mine, Deadline deadline);
  Pending begin_gathering(Channel& channel, std::optional<team::Rank> root, Bytes mine, Bytes all, Deadline deadline);
  Pending begin_gathering_parts(Channel& channel, Bytes mine, const std::vector<std::uint64_t>& lengths, Bytes all,
                                Deadline deadline);
  Pending begin_exchanging(Channel& channel, Bytes from, Bytes into, Deadline deadline);
  Pending begin_exchanging_parts(Channel& channel, Bytes from, const std::vector<std::uint64_t>& to_each, Bytes into,
                                 const std::vector<std::uint64_t>& from_each, Deadline deadline);
  Pending begin_combining(Channel& channel, Bytes values, const Combine& combine, std::optional<team::Rank> root,
                          Deadline deadline);
  Pending begin_combining_pieces(Channel& channel, Bytes values, Bytes mine, const Combine& combine, Deadline deadline);
  Pending begin_scanning(Channel& channel, Bytes values, const Combine& combine, bool includes_own, Deadline deadline);

  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace farside::comm
