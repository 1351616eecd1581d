#include "kv/protocol/layout.h"

#include "farside/base/mix.h"

namespace farside::kv {

namespace {

/// Each word is mixed with its place among them, all at once: a few nanoseconds.
template <class... Words>
std::uint64_t seal_words(Words... words) {
  std::uint64_t place = 0;
  std::uint64_t sum = 0;
  ((sum += mix(words + (place += kMixStep))), ...);
  return sum;
}

}  // namespace

std::uint64_t CellSlot::seal_of() const { return seal_words(timestamp.time, timestamp.session, generation, place); }

std::uint64_t CellHead::seal_of() const { return seal_words(key.high, key.low, generation); }

std::uint64_t MemoryHead::seal_of_forgotten() const { return seal_words(forgotten.time, forgotten.session); }

}  // namespace farside::kv
