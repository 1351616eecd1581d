#include "comm/protocol/exchange.h"

#include <algorithm>

#include "base/assert.h"
#include "comm/protocol/lines.h"

namespace farside::comm {

namespace {

constexpr std::uint64_t kSlotBytes = 512U << 10U;  // a slot's pieces together; memory that is not used is not there

}  // namespace

Exchange::Exchange(team::Team& team, Meeting& meeting, const std::string& name, const ExchangeRules& rules)
    : meeting_(meeting),
      rules_(rules),
      pieces_(team.size()),
      piece_bytes_(std::max(kSlotBytes / pieces_ / kLineBytes * kLineBytes, kLineBytes)),
      memory_(team.allocate(name, Meeting::kInFlight * pieces_ * piece_bytes_)) {}

std::uint64_t Exchange::place(std::uint64_t number, std::size_t member) const {
  const std::uint64_t slot = rules_.keeps_slots_apart ? number % Meeting::kInFlight : 0;
  return (slot * pieces_ + member) * piece_bytes_;
}

Outcome Exchange::arrive(Channel& channel, std::uint64_t number, const Outgoing& outgoing, Deadline deadline) {
  Batch batch(channel);
  for (std::size_t member = 0; member < meeting_.members().size(); ++member) {
    const std::span<std::byte> bytes = outgoing(member);
    if (bytes.empty()) continue;
    assert_that(bytes.size() <= piece_bytes_, "what one member writes for another fits its piece");
    batch.write(memory_->of(meeting_.members()[member]).span(place(number, meeting_.place()), bytes.size()),
                LocalSpan(bytes.data(), bytes.size()));
  }
  if (const Outcome written = batch.wait(deadline); written != Outcome::done) return written;
  return meeting_.arrive(channel, number, deadline);  // which flushes
}

void Exchange::take(std::uint64_t number, std::size_t member, std::span<std::byte> into, std::uint64_t at) const {
  if (into.empty()) return;
  assert_that(at <= piece_bytes_ && into.size() <= piece_bytes_ - at, "what is taken lies in one member's piece");
  memory_->local().copy_out(place(number, member) + at, into);
}

}  // namespace farside::comm
