#include "comm/collective_rounds.h"

#include <algorithm>
#include <string>

#include "farside/base/error.h"

#include "base/assert.h"

namespace farside::comm {

namespace {

using Bytes = std::span<std::byte>;

constexpr std::uint64_t kCombinedBytes = 4096;  // at a time

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

}  // namespace

std::span<std::byte> part(std::span<std::byte> bytes, std::uint64_t at, std::uint64_t most) {
  const Bytes rest = bytes.subspan(std::min<std::uint64_t>(at, bytes.size()));
  return rest.first(std::min<std::uint64_t>(most, rest.size()));
}

std::size_t Collectives::Impl::place_of(team::Rank root, const char* tried) const {
  const auto found = std::ranges::find(group->members(), root);
  if (found == group->members().end()) {
    throw UsageError({tried, "rank " + std::to_string(root), "it is not a member of the group", ""});
  }
  return static_cast<std::size_t>(found - group->members().begin());
}

std::uint64_t Collectives::Impl::whole_elements(std::size_t element_bytes) const {
  const std::uint64_t bytes = exchange->piece_bytes() / element_bytes * element_bytes;
  if (bytes == 0) {
    throw UsageError({"combine", "elements of " + std::to_string(element_bytes) + " bytes",
                      "a piece has " + std::to_string(exchange->piece_bytes()), "give them in fewer at a time"});
  }
  return bytes;
}

Collectives::Pending Collectives::Impl::reported(Pending pending) {
  pending.end_ = [this, end = std::move(pending.end_)](Channel& by, Deadline deadline) {
    const Status status = end(by, deadline);
    return status.done() ? std::exchange(unflushed, {}) : status;
  };
  return pending;
}

Collectives::Pending Collectives::Impl::followed(Pending first, std::function<Pending(Channel&, Deadline)> then) {
  const auto begun = std::make_shared<Pending>(std::move(first));
  Pending made;
  made.ended_ = [begun] { return begun->ended(); };
  made.end_ = [begun, then = std::move(then)](Channel& by, Deadline until) {
    if (const Status status = begun->end(by, until); !status.done()) return status;
    return then(by, until).end(by, until);
  };
  return made;
}

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
Status Collectives::Impl::wait(Channel& channel, std::uint64_t number, Deadline deadline) {
  const Status status = group->wait(channel, number, deadline);
  if (!status.done()) return status;
  std::erase(under_way, number);
  if (unflushed.done()) unflushed = group->unflushed(number);
  return status;
}

Collectives::Pending Collectives::Impl::pending(const Barrier::Begun& begun,
                                                std::function<Status(Channel&, std::uint64_t, Deadline)> rest) {
  Pending made;
  made.ended_ = [this, begun] { return !begun.status.done() || group->meeting().ended(begun.number); };
  made.end_ = [begun, rest = std::move(rest)](Channel& channel, Deadline deadline) {
    return begun.status.done() ? rest(channel, begun.number, deadline) : begun.status;
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

Status Collectives::Impl::end_transfer(Channel& channel, const std::shared_ptr<Transfer>& transfer,
                                       std::uint64_t number, Deadline deadline) {
  for (std::uint64_t at = 0;;) {
    if (const Status status = wait(channel, number, deadline); !status.done()) return status;
    take_round(*transfer, number, at);
    at += transfer->round_bytes;
    if (at >= transfer->longest) return {};
    const Barrier::Begun next = begin_round(channel, transfer, at, deadline);
    if (!next.status.done()) return next.status;
    number = next.number;
  }
}

// ---- Combining

Collectives::Pending Collectives::Impl::begin_small(Channel& channel, Bytes values, const Combine& combine, bool wanted,
                                                    Deadline deadline) {
  // A copy: the rank that ends it hears from the others, not from the thread that read it here.
  auto attend = [&meeting = group->meeting(), payload = std::vector<std::byte>(values.begin(), values.end()),
                 all = combine.all](Channel& by, std::uint64_t number, Deadline until) mutable {
    return meeting.arrive(by, number, payload, all, until);
  };
  return pending(begin(channel, std::move(attend), deadline),
                 [this, values, wanted](Channel& by, std::uint64_t number, Deadline until) {
                   const Status status = wait(by, number, until);
                   if (status.done() && wanted) group->meeting().take_result(number, values);
                   return status;
                 });
}

Collectives::Pending Collectives::Impl::begin_reducing(Channel& channel, const std::vector<Bytes>& slices,
                                                       std::uint64_t slice_bytes, Bytes result, const Combine& combine,
                                                       Deadline deadline) {
  Transfer transfer = nothing(slice_bytes, combine.element_bytes);
  transfer.out = slices;
  transfer.take = [=, this, own = slices[self()], bytes = transfer.round_bytes](std::uint64_t number,
                                                                                std::uint64_t at) {
    reduce_round(number, count(), part(own, at, bytes), part(result, at, bytes), combine);
  };
  return begin_transfer(channel, std::move(transfer), deadline);
}

void Collectives::Impl::reduce_round(std::uint64_t number, std::size_t members, Bytes own, Bytes result,
                                     const Combine& combine) {
  assert_that(own.size() == result.size(), "a slice and its result are of one size");
  if (members == 0) return;
  // A few elements at a time, which stay in the processor's cache.
  const std::uint64_t most = std::max<std::uint64_t>(kCombinedBytes / combine.element_bytes, 1) * combine.element_bytes;
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
    for (std::size_t member = 1; member < members; ++member) {
      fetch(member, value);
      combine.all(sum, value);
    }
    std::ranges::copy(sum, part(result, at, most).begin());
  }
}

}  // namespace farside::comm
