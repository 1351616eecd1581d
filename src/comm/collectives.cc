#include "farside/comm/collectives.h"

#include <string>
#include <utility>

#include "farside/base/error.h"
#include "farside/base/rounding.h"

#include "base/assert.h"
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

namespace {

using Bytes = std::span<std::byte>;

constexpr std::uint64_t kCombinedBytes = 4096;  // at a time

/// Returns at most `most` of the bytes from `at` on.
Bytes part(Bytes bytes, std::uint64_t at, std::uint64_t most) {
  const Bytes rest = bytes.subspan(std::min<std::uint64_t>(at, bytes.size()));
  return rest.first(std::min<std::uint64_t>(most, rest.size()));
}

/// The data of one round. It lies in the caller's memory, which goes with a call that ends before the round does: so a
/// round that is left to the service thread has a copy.
class RoundBytes {
 public:
  explicit RoundBytes(std::vector<Bytes> by_member) : by_member_(std::move(by_member)) {}

  [[nodiscard]] Bytes to(std::size_t member) const { return by_member_[member]; }
  void keep() {
    std::uint64_t all = 0;
    for (const Bytes& bytes : by_member_) all += bytes.size();
    kept_ = std::make_shared<std::vector<std::byte>>(all);
    auto at = kept_->begin();
    for (Bytes& bytes : by_member_) {
      const Bytes copy(at, bytes.size());
      at = std::ranges::copy(bytes, at).out;
      bytes = copy;
    }
  }

 private:
  std::vector<Bytes> by_member_;
  std::shared_ptr<std::vector<std::byte>> kept_;
};

/// `bytes` cut into `count` pieces of `piece_bytes`; what is missing is missing at the end.
std::vector<Bytes> cut(Bytes bytes, std::size_t count, std::uint64_t piece_bytes) {
  std::vector<Bytes> pieces(count);
  for (std::size_t each = 0; each < count; ++each) pieces[each] = part(bytes, each * piece_bytes, piece_bytes);
  return pieces;
}

}  // namespace

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

  template <class Attend>
  Barrier::Begun begin(Channel& channel, Attend attend, Deadline deadline);
  Ended wait(Channel& channel, std::uint64_t number, Deadline deadline);
  Barrier::Begun begin_round(Channel& channel, const std::shared_ptr<Transfer>& transfer, std::uint64_t at,
                             Deadline deadline);

  Pending begin_transfer(Channel& channel, Transfer transfer, Deadline deadline);
  Ended end_transfer(Channel& channel, const std::shared_ptr<Transfer>& transfer, std::uint64_t number,
                     Deadline deadline);
  void take_round(const Transfer& transfer, std::uint64_t number, std::uint64_t at);
  Pending begin_small(Channel& channel, Bytes values, Combine combine, bool wanted, Deadline deadline);
  Pending begin_sliced(Channel& channel, Bytes values, std::size_t element_bytes, const Combine& combine,
                       std::optional<std::size_t> root, Deadline deadline);

  /// In `result`, what all members have of this one's slice, of which it has `own`: what came in one round.
  void reduce_round(std::uint64_t number, Bytes own, Bytes result, std::size_t element_bytes, const Combine& combine);

  /// `rest` ends what `begun` has begun; if that failed, ending returns its failure.
  Pending pending(const Barrier::Begun& begun, std::function<Ended(Channel&, std::uint64_t number, Deadline)> rest);

  std::shared_ptr<Group> group;
  std::shared_ptr<Exchange> exchange;    ///< as the group, kept by what is in the background
  std::vector<std::uint64_t> under_way;  ///< ascending
  std::uint64_t last = 0;
  Ended unflushed;  ///< the first since it was last reported

  /// The rounds go on without what is lost with a rank outside the group; the end of them all reports it.
  Pending reported(Pending pending) {
    pending.end_ = [this, end = std::move(pending.end_)](Channel& by, Deadline deadline) {
      const Ended ended = end(by, deadline);
      return ended.done() ? std::exchange(unflushed, {}) : ended;
    };
    return pending;
  }
};

// ---- Meetings of the group

template <class Attend>
Barrier::Begun Collectives::Impl::begin(Channel& channel, Attend attend, Deadline deadline) {
  if (!under_way.empty() && under_way.front() + Exchange::kUnderWay <= last + 1) {
    throw UsageError({"begin", "a collective operation",
                      std::to_string(Exchange::kUnderWay) + " are under way since one that was not ended",
                      "end that one"});
  }
  const Barrier::Begun begun = group->begin(channel, std::move(attend), deadline);
  assert_that(begun.number == 0 || begun.number > last, "the group's meetings are numbered in ascending order");
  if (begun.number != 0) under_way.push_back(last = begun.number);
  return begun;
}

/// Its result is to be taken before the next one begins.
Ended Collectives::Impl::wait(Channel& channel, std::uint64_t number, Deadline deadline) {
  const Ended ended = group->wait(channel, number, deadline);
  if (!ended.done()) return ended;
  std::erase(under_way, number);
  if (unflushed.done()) unflushed = group->unflushed(number);
  return ended;
}

Collectives::Pending Collectives::Impl::pending(const Barrier::Begun& begun,
                                                std::function<Ended(Channel&, std::uint64_t, Deadline)> rest) {
  Pending made;
  made.ended_ = [this, begun] { return !begun.ended.done() || group->meeting().ended(begun.number); };
  made.end_ = [begun, rest = std::move(rest)](Channel& channel, Deadline deadline) {
    return begun.ended.done() ? rest(channel, begun.number, deadline) : begun.ended;
  };
  return made;
}

// ---- Transfers: in as many rounds as the longest piece needs

Barrier::Begun Collectives::Impl::begin_round(Channel& channel, const std::shared_ptr<Transfer>& transfer,
                                              std::uint64_t at, Deadline deadline) {
  struct Attend {
    std::shared_ptr<Exchange> exchange;
    RoundBytes outgoing;

    void keep() { outgoing.keep(); }
    Outcome operator()(Channel& by, std::uint64_t number, Deadline until) const {
      return exchange->arrive(
          by, number, [this](std::size_t member) { return outgoing.to(member); }, until);
    }
  };
  std::vector<Bytes> outgoing(count());
  for (std::size_t member = 0; member < count(); ++member) {
    if (member != self()) outgoing[member] = part(transfer->out[member], at, transfer->round_bytes);
  }
  return begin(channel, Attend{exchange, RoundBytes(std::move(outgoing))}, deadline);
}

Collectives::Pending Collectives::Impl::begin_transfer(Channel& channel, Transfer transfer, Deadline deadline) {
  assert_that(transfer.out.size() == count(), "a transfer has data for each member");
  assert_that(transfer.round_bytes != 0 && transfer.round_bytes <= exchange->piece_bytes(),
              "a round moves something, and not more than a piece has room for");
  const auto shared = std::make_shared<Transfer>(std::move(transfer));
  return pending(begin_round(channel, shared, 0, deadline),
                 [this, shared](Channel& by, std::uint64_t number, Deadline until) {
                   return end_transfer(by, shared, number, until);
                 });
}

void Collectives::Impl::take_round(const Transfer& transfer, std::uint64_t number, std::uint64_t at) {
  if (transfer.take) return transfer.take(number, at);
  const auto round = [&](Bytes piece) { return part(piece, at, transfer.round_bytes); };
  for (std::size_t member = 0; member < count(); ++member) {
    if (member != self()) exchange->take(number, member, round(transfer.in[member]));
  }
  // A member's data for itself stays here.
  const Bytes own = round(transfer.out[self()]);
  const Bytes place = round(transfer.in[self()]);
  assert_that(place.size() <= own.size(), "a member has for itself all that it expects of itself");
  if (place.data() != own.data()) std::ranges::copy(own.first(place.size()), place.begin());
}

Ended Collectives::Impl::end_transfer(Channel& channel, const std::shared_ptr<Transfer>& transfer, std::uint64_t number,
                                      Deadline deadline) {
  for (std::uint64_t at = 0;;) {
    if (const Ended ended = wait(channel, number, deadline); !ended.done()) return ended;
    take_round(*transfer, number, at);
    at += transfer->round_bytes;
    if (at >= transfer->longest) return {};
    const Barrier::Begun next = begin_round(channel, transfer, at, deadline);
    if (!next.ended.done()) return next.ended;
    number = next.number;
  }
}

// ---- Reductions

Collectives::Pending Collectives::Impl::begin_small(Channel& channel, Bytes values, Combine combine, bool wanted,
                                                    Deadline deadline) {
  // A copy: the rank that ends it hears from the others, not from the thread that read it here.
  auto attend = [&meeting = group->meeting(), payload = std::vector<std::byte>(values.begin(), values.end()),
                 combine = std::move(combine)](Channel& by, std::uint64_t number, Deadline until) mutable {
    return meeting.arrive(by, number, payload, combine, until);
  };
  return pending(begin(channel, std::move(attend), deadline),
                 [this, values, wanted](Channel& by, std::uint64_t number, Deadline until) {
                   const Ended ended = wait(by, number, until);
                   if (ended.done() && wanted) group->meeting().take_result(number, values);
                   return ended;
                 });
}

void Collectives::Impl::reduce_round(std::uint64_t number, Bytes own, Bytes result, std::size_t element_bytes,
                                     const Combine& combine) {
  assert_that(own.size() == result.size(), "a slice and its result are of one size");
  // A few elements at a time, which stay in the processor's cache.
  const std::uint64_t most = std::max<std::uint64_t>(kCombinedBytes / element_bytes, 1) * element_bytes;
  std::vector<std::byte> sums(most);
  std::vector<std::byte> values(most);
  for (std::uint64_t at = 0; at < own.size(); at += most) {
    const Bytes mine = part(own, at, most);
    const Bytes sum = part(sums, 0, mine.size());
    const Bytes value = part(values, 0, mine.size());
    const auto fetch = [&](std::size_t member, Bytes into) {
      if (member != self()) return exchange->take(number, member, into, at);
      std::ranges::copy(mine, into.begin());
    };
    fetch(0, sum);
    for (std::size_t member = 1; member < count(); ++member) {
      fetch(member, value);
      combine(sum, value);
    }
    std::ranges::copy(sum, part(result, at, most).begin());
  }
}

// Each member gets all members' values of its slice, combines them, and sends the result to all that want it.
Collectives::Pending Collectives::Impl::begin_sliced(Channel& channel, Bytes values, std::size_t element_bytes,
                                                     const Combine& combine, std::optional<std::size_t> root,
                                                     Deadline deadline) {
  const std::uint64_t round_bytes = exchange->piece_bytes() / element_bytes * element_bytes;
  if (round_bytes == 0) {
    throw UsageError({"reduce", "elements of " + std::to_string(element_bytes) + " bytes",
                      "a piece has " + std::to_string(exchange->piece_bytes()), "give them in fewer at a time"});
  }
  const std::uint64_t slice_bytes = div_ceil(values.size() / element_bytes, count()) * element_bytes;
  const std::vector<Bytes> slices = cut(values, count(), slice_bytes);
  const Bytes own = slices[self()];
  // Values stay as they are where the result is not wanted.
  const auto elsewhere = std::make_shared<std::vector<std::byte>>(root ? own.size() : 0);
  const Bytes result = root ? Bytes(*elsewhere) : own;

  Transfer scattering{.out = slices, .in = {}, .longest = slice_bytes, .round_bytes = round_bytes};
  scattering.take = [=, this](std::uint64_t number, std::uint64_t at) {
    reduce_round(number, part(own, at, round_bytes), part(result, at, round_bytes), element_bytes, combine);
  };
  const auto scattered = std::make_shared<Pending>(begin_transfer(channel, std::move(scattering), deadline));
  Pending made;
  made.ended_ = [scattered] { return scattered->ended(); };
  made.end_ = [=, this](Channel& by, Deadline until) {
    if (const Ended ended = scattered->end(by, until); !ended.done()) return ended;
    Transfer gathering{.out = std::vector<Bytes>(count()),
                       .in = std::vector<Bytes>(count()),
                       .longest = slice_bytes,
                       .round_bytes = round_bytes};
    for (std::size_t member = 0; member < count(); ++member) {
      if (!root || *root == member) gathering.out[member] = result;
    }
    if (!root || *root == self()) gathering.in = slices;
    (void)elsewhere;  // is kept
    return begin_transfer(by, std::move(gathering), until).end(by, until);
  };
  return made;
}

// ---- What users see

Collectives::Collectives(Comm& comm, std::vector<team::Rank> members)
    : impl_(std::make_unique<Impl>(comm, std::move(members))) {}
Collectives::~Collectives() = default;

std::uint64_t Collectives::piece_bytes() const { return impl_->exchange->piece_bytes(); }

Collectives::Pending Collectives::begin_combining(Channel& channel, Bytes values, std::size_t element_bytes,
                                                  Combine combine, std::optional<team::Rank> root, Deadline deadline) {
  std::optional<std::size_t> place;
  if (root) {
    const auto found = std::ranges::find(impl_->group->members(), *root);
    if (found == impl_->group->members().end()) {
      throw UsageError({"reduce to", "rank " + std::to_string(*root), "it is not a member of the group", ""});
    }
    place = found - impl_->group->members().begin();
  }
  if (values.size() <= kSmallBytes) {
    return impl_->reported(
        impl_->begin_small(channel, values, std::move(combine), !place || *place == impl_->self(), deadline));
  }
  return impl_->reported(impl_->begin_sliced(channel, values, element_bytes, combine, place, deadline));
}

Collectives::Pending Collectives::begin_gathering(Channel& channel, Bytes mine, Bytes all, Deadline deadline) {
  const std::size_t count = impl_->count();
  if (all.size() != count * mine.size()) {
    throw UsageError({"gather", std::to_string(mine.size()) + " bytes of each member",
                      "there is room for " + std::to_string(all.size()), "give " + std::to_string(count) + " times"});
  }
  return impl_->reported(impl_->begin_transfer(channel,
                                               {.out = std::vector<Bytes>(count, mine),
                                                .in = cut(all, count, mine.size()),
                                                .longest = mine.size(),
                                                .round_bytes = piece_bytes()},
                                               deadline));
}

Collectives::Pending Collectives::begin_exchanging(Channel& channel, Bytes from, Bytes into, Deadline deadline) {
  const std::size_t count = impl_->count();
  if (from.size() != into.size() || from.size() % count != 0) {
    throw UsageError(
        {"exchange", std::to_string(from.size()) + " bytes",
         "there is room for " + std::to_string(into.size()) + ", for " + std::to_string(count) + " members",
         "give both the same size, with an equal piece for each member"});
  }
  const std::uint64_t piece = from.size() / count;
  return impl_->reported(impl_->begin_transfer(
      channel,
      {.out = cut(from, count, piece), .in = cut(into, count, piece), .longest = piece, .round_bytes = piece_bytes()},
      deadline));
}

}  // namespace farside::comm
