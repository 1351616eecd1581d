#include "comm/carry.h"

#include <algorithm>
#include <vector>

namespace farside::comm {

namespace {

constexpr std::uint64_t kCarriedBytes = 256U << 10U;  // at once

}  // namespace

Status carry(Channel& channel, std::span<const RemoteSpan> to, RemoteSpan from, const NextDeadline& next) {
  Status worst;
  std::vector<std::byte> piece(std::min(from.bytes, kCarriedBytes));
  for (std::uint64_t at = 0; at < from.bytes; at += piece.size()) {
    const std::uint64_t bytes = std::min<std::uint64_t>(piece.size(), from.bytes - at);
    const LocalSpan buffer(piece.data(), bytes);
    const Deadline deadline = next();
    const Outcome read = channel.read(buffer, from.region->span(from.offset + at, bytes), deadline);
    if (read != Outcome::done) return status_with(read, from.region->peer());
    for (const RemoteSpan& each : to) {
      const Outcome written = channel.write(each.region->span(each.offset + at, bytes), buffer, deadline);
      if (worst.done()) worst = status_with(written, each.region->peer());
    }
  }
  return worst;
}

}  // namespace farside::comm
