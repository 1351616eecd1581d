#include "kv/protocol/siblings.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace farside::kv {

namespace {

/// 256 bits, four of them for each key: one in 400 other keys is named by mistake when there are eight (RAMP, 3.4.3).
using Filter = std::array<std::uint8_t, 32>;

template <class Visit>
void for_each_bit(const KeyId& key, Visit&& visit) {
  for (unsigned i = 0; i < 4; ++i) {
    const auto bit = static_cast<std::uint8_t>(key.low >> 8 * i);
    visit(bit / 8U, static_cast<std::uint8_t>(1U << bit % 8U));
  }
}

}  // namespace

std::vector<std::byte> make_siblings(SiblingsKind kind, std::span<const KeyId> keys) {
  switch (kind) {
    case SiblingsKind::none: return {};
    case SiblingsKind::list: {
      const auto bytes = std::as_bytes(keys);
      return {bytes.begin(), bytes.end()};
    }
    case SiblingsKind::filter: break;
  }
  Filter filter{};
  for (const KeyId& key : keys) {
    for_each_bit(key, [&](std::size_t at, std::uint8_t bit) { filter.at(at) |= bit; });
  }
  const auto bytes = std::as_bytes(std::span(filter));
  return {bytes.begin(), bytes.end()};
}

bool may_name(SiblingsKind kind, std::span<const std::byte> siblings, const KeyId& key) {
  switch (kind) {
    case SiblingsKind::none: return true;
    case SiblingsKind::list:
      for (std::size_t at = 0; at + sizeof key <= siblings.size(); at += sizeof key) {
        if (std::memcmp(&siblings[at], &key, sizeof key) == 0) return true;
      }
      return false;
    case SiblingsKind::filter: break;
  }
  if (siblings.size() != sizeof(Filter)) return true;  // not one of ours: nothing is known
  bool all = true;
  for_each_bit(key, [&](std::size_t at, std::uint8_t bit) {
    all = all && (std::to_integer<std::uint8_t>(siblings[at]) & bit) != 0;
  });
  return all;
}

}  // namespace farside::kv
