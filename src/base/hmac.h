// hmac.h — keyed hashes, which prove that their maker knows a key, and what they are drawn from.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace farside {

using Digest = std::array<std::uint8_t, 32>;
using Nonce = std::array<std::uint8_t, 32>;

/// Throws Error when libcrypto refuses.
[[nodiscard]] Digest hmac_sha256(std::span<const std::uint8_t> key, std::string_view message);

/// Takes the same time wherever the two differ.
[[nodiscard]] bool equal_in_constant_time(std::span<const std::uint8_t> a, std::span<const std::uint8_t> b);

/// From the kernel's generator.
[[nodiscard]] Nonce random_nonce();

[[nodiscard]] inline std::span<const std::uint8_t> as_octets(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

}  // namespace farside
