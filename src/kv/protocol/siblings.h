// siblings.h — what a version carries of the keys that its transaction wrote: their ids (RAMP-Fast), a Bloom filter of
// them (RAMP-Hybrid), or nothing (RAMP-Small).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kv/protocol/layout.h"

namespace farside::kv {

/// A version's siblings, as the client made them: KeyIds, a filter, or nothing.
struct Siblings {
  SiblingsKind kind = SiblingsKind::none;
  std::span<const std::byte> bytes;
};

[[nodiscard]] std::vector<std::byte> make_siblings(SiblingsKind kind, std::span<const KeyId> keys);

/// Whether a transaction may have written `key`: certain for a list, likely for a filter; nothing is known of none.
[[nodiscard]] bool may_name(SiblingsKind kind, std::span<const std::byte> siblings, const KeyId& key);

}  // namespace farside::kv
