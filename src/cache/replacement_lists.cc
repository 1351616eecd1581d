#include "cache/replacement_lists.h"

namespace farside::cache {

std::optional<std::uint32_t> ReplacementLists::take_oldest(const UseBoard& board) {
  while (!general_.empty()) {
    const auto [known_use, slot] = *general_.begin();
    general_.erase(general_.begin());
    const Time used = board.last_used(slot);
    if (used.nanoseconds <= known_use) return slot;
    general_.emplace(used.nanoseconds, slot);
  }
  return std::nullopt;
}

std::optional<std::uint32_t> ReplacementLists::take_overflow(const UseBoard& board) {
  while (singlets_.size() > singlet_capacity_) {
    const Singlet last = singlets_.back();
    singlets_.pop_back();
    const Time used = board.last_used(last.slot);
    if (used <= last.since) return last.slot;
    add(last.slot, used);
  }
  return std::nullopt;
}

std::optional<std::uint32_t> ReplacementLists::take_singlet() {
  if (singlets_.empty()) return std::nullopt;
  const std::uint32_t slot = singlets_.back().slot;
  singlets_.pop_back();
  return slot;
}

}  // namespace farside::cache
