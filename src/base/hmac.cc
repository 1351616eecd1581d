#include "base/hmac.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "farside/base/error.h"

#include "base/random_bits.h"

namespace farside {

Digest hmac_sha256(std::span<const std::uint8_t> key, std::string_view message) {
  Digest digest;
  unsigned int length = 0;
  static constexpr std::uint8_t kNoKey = 0;  // HMAC() refuses a null key, also an empty one
  if (::HMAC(::EVP_sha256(), key.empty() ? &kNoKey : key.data(), static_cast<int>(key.size()),
             reinterpret_cast<const unsigned char*>(message.data()), message.size(), digest.data(),
             &length) == nullptr ||
      length != digest.size()) {
    throw Error({"compute", "HMAC-SHA-256", "libcrypto refused", "check the machine's OpenSSL configuration"});
  }
  return digest;
}

bool equal_in_constant_time(std::span<const std::uint8_t> a, std::span<const std::uint8_t> b) {
  return a.size() == b.size() && ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

Nonce random_nonce() { return random_bits<Nonce>(); }

}  // namespace farside
