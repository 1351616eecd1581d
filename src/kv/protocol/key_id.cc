#include "kv/protocol/key_id.h"

#define XXH_INLINE_ALL
#include <string>

#include <xxhash.h>

#include "farside/base/error.h"

namespace farside::kv {

KeyId key_id(std::string_view key) {
  const XXH128_hash_t hash = XXH3_128bits(key.data(), key.size());
  return {hash.high64, hash.low64};
}

void check_key(const char* tried, std::string_view key) {
  if (!key.empty() && key.size() <= kMaxKeyBytes) return;
  throw UsageError({.tried = tried,
                    .on = "a key of " + std::to_string(key.size()) + " bytes",
                    .why = "a key has 1 byte to 64 KiB",
                    .remedy = "choose another key"});
}

}  // namespace farside::kv
