// collectives.h — what the ranks of a group do together: reduce, all_reduce, all_gather, all_to_all.
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
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
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
    Ended end(Channel& channel, Deadline deadline) { return end_(channel, deadline); }

   private:
    friend class Collectives;
    std::function<bool()> ended_;
    std::function<Ended(Channel&, Deadline)> end_;
  };

  /// Collective over the team: each rank with the ranks of its own group, ascending; none for all of the team. `comm`
  /// outlives this. Throws UsageError for a group that this rank is not in.
  explicit Collectives(Comm& comm, std::vector<team::Rank> members = {});
  ~Collectives();
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;

  /// The most bytes that one member sends another at once.
  [[nodiscard]] std::uint64_t piece_bytes() const;

  // Begin. UsageError is thrown when 4 are under way, for sizes that do not fit, and a root that is no member.

  /// In `values`, element by element, what all members have there.
  template <Sendable T, class Operator = std::plus<>>
  Pending begin_all_reduce(Channel& channel, std::span<T> values, Deadline deadline, Operator combine = {}) {
    return begin_combining(channel, std::as_writable_bytes(values), sizeof(T), on_bytes<T>(combine), {}, deadline);
  }
  /// The same at `root`; the other members' values stay as they are.
  template <Sendable T, class Operator = std::plus<>>
  Pending begin_reduce(Channel& channel, team::Rank root, std::span<T> values, Deadline deadline,
                       Operator combine = {}) {
    return begin_combining(channel, std::as_writable_bytes(values), sizeof(T), on_bytes<T>(combine), root, deadline);
  }
  /// In `all`, one after the other, what the members have in `mine`.
  template <Sendable T>
  Pending begin_all_gather(Channel& channel, std::span<T> mine, std::span<T> all, Deadline deadline) {
    return begin_gathering(channel, std::as_writable_bytes(mine), std::as_writable_bytes(all), deadline);
  }
  /// Sends each member one of the equal pieces of `from`; receives into `into`, one after the other, the pieces from
  /// each.
  template <Sendable T>
  Pending begin_all_to_all(Channel& channel, std::span<T> from, std::span<T> into, Deadline deadline) {
    return begin_exchanging(channel, std::as_writable_bytes(from), std::as_writable_bytes(into), deadline);
  }

  // Begin and end.

  template <Sendable T, class Operator = std::plus<>>
  Ended all_reduce(Channel& channel, std::span<T> values, Deadline deadline, Operator combine = {}) {
    return begin_all_reduce(channel, values, deadline, combine).end(channel, deadline);
  }
  template <Sendable T, class Operator = std::plus<>>
  Ended reduce(Channel& channel, team::Rank root, std::span<T> values, Deadline deadline, Operator combine = {}) {
    return begin_reduce(channel, root, values, deadline, combine).end(channel, deadline);
  }
  template <Sendable T>
  Ended all_gather(Channel& channel, std::span<T> mine, std::span<T> all, Deadline deadline) {
    return begin_all_gather(channel, mine, all, deadline).end(channel, deadline);
  }
  template <Sendable T>
  Ended all_to_all(Channel& channel, std::span<T> from, std::span<T> into, Deadline deadline) {
    return begin_all_to_all(channel, from, into, deadline).end(channel, deadline);
  }

 private:
  using Bytes = std::span<std::byte>;
  using Combine = std::function<void(Bytes into, std::span<const std::byte> from)>;
  struct Transfer;

  template <class T, class Operator>
  static Combine on_bytes(Operator combine) {
    return [combine](Bytes into, std::span<const std::byte> from) {
      // Most of them a constant number at a time, which compilers turn into vector instructions.
      constexpr std::size_t kMany = std::max<std::size_t>(128 / sizeof(T), 1);
      std::size_t at = 0;
      for (; at + kMany * sizeof(T) <= into.size(); at += kMany * sizeof(T)) {
        combine_elements<T, kMany>(into.data() + at, from.data() + at, combine);
      }
      for (; at < into.size(); at += sizeof(T)) combine_elements<T, 1>(into.data() + at, from.data() + at, combine);
    };
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

  Pending begin_combining(Channel& channel, Bytes values, std::size_t element_bytes, Combine combine,
                          std::optional<team::Rank> root, Deadline deadline);
  Pending begin_gathering(Channel& channel, Bytes mine, Bytes all, Deadline deadline);
  Pending begin_exchanging(Channel& channel, Bytes from, Bytes into, Deadline deadline);

  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace farside::comm
