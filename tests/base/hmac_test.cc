// Expected bytes: RFC 4231, test cases 1 and 2; that of nothing under an empty key is what Python's hmac says.
#include "base/hmac.h"

#include <string>

#include <gtest/gtest.h>

namespace farside {
namespace {

std::string hex(const Digest& digest) {
  std::string text;
  for (const std::uint8_t byte : digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

TEST(Hmac, IsThatOfRfc4231) {
  EXPECT_EQ(hex(hmac_sha256(as_octets(std::string(20, '\x0b')), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hex(hmac_sha256(as_octets("Jefe"), "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST(Hmac, TakesAnEmptyKeyAndAnEmptyMessage) {
  EXPECT_EQ(hex(hmac_sha256({}, {})), "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

TEST(Hmac, DrawsAnotherNonceEachTime) { EXPECT_NE(random_nonce(), random_nonce()); }

}  // namespace
}  // namespace farside
