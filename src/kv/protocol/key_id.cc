#include "kv/protocol/key_id.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace farside::kv {

KeyId key_id(std::string_view key) {
  const XXH128_hash_t hash = XXH3_128bits(key.data(), key.size());
  return {hash.high64, hash.low64};
}

}  // namespace farside::kv
