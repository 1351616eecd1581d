#include "fabric/seal.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/wire.h"

namespace farside {

std::string seal(SealKind kind, std::string_view content) {
  std::string sealed = Encoder().number(kind).number(XXH3_64bits(content.data(), content.size())).take();
  return sealed.append(content);
}

std::string_view unseal(SealKind kind, std::string_view sealed, std::string_view what) {
  Decoder decoder(sealed, what);
  decoder.expect(decoder.number<SealKind>() == kind, "it is none, or another version of farside made it");
  const auto checksum = decoder.number<XXH64_hash_t>();
  const std::string_view content = decoder.rest();
  decoder.expect(XXH3_64bits(content.data(), content.size()) == checksum, "its checksum is wrong");
  return content;
}

}  // namespace farside
