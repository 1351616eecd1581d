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

std::uint64_t CellHead::seal_of(std::size_t number, const CellSlot& slot) {
  return mix(seal_words(slot.timestamp.time, slot.timestamp.session, slot.generation, slot.place) + number);
}

std::uint64_t CellHead::seal_of() const {
  std::uint64_t sum = seal_words(key.high, key.low, generation);
  for (std::size_t number = 0; number < kSlots; ++number) sum += seal_of(number, slots[number]);
  return sum;
}

std::uint64_t MemoryHead::seal_of_forgotten() const { return seal_words(forgotten.time, forgotten.session); }

}  // namespace farside::kv
