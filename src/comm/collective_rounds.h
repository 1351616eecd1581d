// collective_rounds.h — what collective operations are made of: meetings that carry a small value, and transfers
// between all members in as many rounds as the longest piece needs (docs/protocols/comm.md, "Exchange").
//
// For collectives.cc alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "farside/comm/collectives.h"

#include "comm/group.h"
#include "comm/protocol/exchange.h"

namespace farside::comm {

/// The data that each member sends to each, and the places for the data that it gets.
struct Collectives::Transfer {
  std::vector<Bytes> out;  ///< by member
  std::vector<Bytes> in;
  std::uint64_t longest;      ///< between any two: so all have as many rounds
  std::uint64_t round_bytes;  ///< of a piece, in one round
  /// Takes what came in the meeting of `number`: of each piece, what lies from `at` on. None: it goes to its place.
  std::function<void(std::uint64_t number, std::uint64_t at)> take = {};
};

class Collectives::Impl {
 public:
  Impl(Comm& comm, std::vector<team::Rank> members)
      : group(std::make_shared<Group>(comm, std::move(members), "collectives", kSmallBytes)),
        exchange(std::make_shared<Exchange>(comm.team(), group->meeting(), comm.next_name("pieces"))) {}
  ~Impl() { group->settle(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  [[nodiscard]] std::size_t count() const { return group->members().size(); }
  [[nodiscard]] std::size_t self() { return group->meeting().place(); }
  /// Throws UsageError, with what was `tried`, when it is no member.
  [[nodiscard]] std::size_t place_of(team::Rank root, const char* tried) const;
  /// As many bytes of whole elements as a piece has room for. Throws UsageError when it has not for one.
  [[nodiscard]] std::uint64_t whole_elements(std::size_t element_bytes) const;

  [[nodiscard]] std::uint64_t piece_bytes() const { return exchange->piece_bytes(); }

  /// A transfer in which no member has anything for another yet, of pieces of `longest` bytes of whole elements.
  [[nodiscard]] Transfer nothing(std::uint64_t longest, std::size_t element_bytes = 1) const {
    return {.out = std::vector<Bytes>(count()),
            .in = std::vector<Bytes>(count()),
            .longest = longest,
            .round_bytes = whole_elements(element_bytes)};
  }
  /// The same bytes for the member at `place`, or for all.
  [[nodiscard]] std::vector<Bytes> sent_to(std::optional<std::size_t> place, Bytes bytes) const {
    std::vector<Bytes> out(count(), place ? Bytes() : bytes);
    if (place) out[*place] = bytes;
    return out;
  }
  Pending begin_transfer(Channel& channel, Transfer transfer, Deadline deadline);
  /// In `result`, what all members have of this one's slice. `slices`: by member, of `slice_bytes` or less.
  Pending begin_reducing(Channel& channel, const std::vector<Bytes>& slices, std::uint64_t slice_bytes, Bytes result,
                         const Combine& combine, Deadline deadline);
  /// In `values`, if it is `wanted` here, what all members have there: in one meeting.
  Pending begin_small(Channel& channel, Bytes values, const Combine& combine, bool wanted, Deadline deadline);
  /// In `result`, what the first `members` have for this one, which has `own` for itself: of what came in one round.
  void reduce_round(std::uint64_t number, std::size_t members, Bytes own, Bytes result, const Combine& combine);

  /// The rounds go on without what is lost with a rank outside the group; the end of them all reports it.
  Pending reported(Pending pending);
  /// `first`, and when that has ended `then`.
  static Pending followed(Pending first, std::function<Pending(Channel&, Deadline)> then);

 private:
  template <class Attend>
  Barrier::Begun begin(Channel& channel, Attend attend, Deadline deadline);
  Status wait(Channel& channel, std::uint64_t number, Deadline deadline);
  Barrier::Begun begin_round(Channel& channel, const std::shared_ptr<Transfer>& transfer, std::uint64_t at,
                             Deadline deadline);
  Status end_transfer(Channel& channel, const std::shared_ptr<Transfer>& transfer, std::uint64_t number,
                      Deadline deadline);
  void take_round(const Transfer& transfer, std::uint64_t number, std::uint64_t at);
  /// `rest` ends what `begun` has begun; if that failed, ending returns its failure.
  Pending pending(const Barrier::Begun& begun, std::function<Status(Channel&, std::uint64_t number, Deadline)> rest);

  std::shared_ptr<Group> group;
  std::shared_ptr<Exchange> exchange;    ///< as the group, kept by what is in the background
  std::vector<std::uint64_t> under_way;  ///< ascending
  std::uint64_t last = 0;
  Status unflushed;  ///< the first since it was last reported
};

/// Returns at most `most` of the bytes from `at` on.
[[nodiscard]] std::span<std::byte> part(std::span<std::byte> bytes, std::uint64_t at, std::uint64_t most);

}  // namespace farside::comm
