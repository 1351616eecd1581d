#include "kv/protocol/siblings.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace farside::kv {

namespace {

// A filter has 16 bits or more for each key, four of them set, so that one in hundreds of other keys is named by
// mistake (RAMP, 3.4.3), and more often if there are hundreds of keys: each version carries the filter, and a reader
// that is misled reads once more.
constexpr std::size_t kBytesForKey = 2;
constexpr std::size_t kFewestBytes = 32;
constexpr std::size_t kMaxBytes = 256;

bool is_filter(std::size_t bytes) { return std::has_single_bit(bytes) && bytes >= kFewestBytes && bytes <= kMaxBytes; }

/// A filter has 2^8 to 2^11 bits; which four are a key's, 16 of its bits each say.
template <class Visit>
void for_each_bit(const KeyId& key, std::size_t bytes, Visit&& visit) {
  for (unsigned i = 0; i < 4; ++i) {
    const std::uint64_t near = key.low >> 8 * i & 0xFFU;
    const std::uint64_t far = key.low >> (32 + 8 * i) & 0xFFU;
    const std::uint64_t bit = (far << 8U | near) % (8 * bytes);
    visit(bit / 8U, static_cast<std::byte>(1U << bit % 8U));
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
  std::vector<std::byte> filter(std::clamp(std::bit_ceil(kBytesForKey * keys.size()), kFewestBytes, kMaxBytes));
  for (const KeyId& key : keys) {
    for_each_bit(key, filter.size(), [&](std::size_t at, std::byte bit) { filter[at] |= bit; });
  }
  return filter;
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
  if (!is_filter(siblings.size())) return true;  // not one of ours: nothing is known
  bool all = true;
  for_each_bit(key, siblings.size(),
               [&](std::size_t at, std::byte bit) { all = all && (siblings[at] & bit) != std::byte{0}; });
  return all;
}

}  // namespace farside::kv
