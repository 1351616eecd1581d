// secret.h — the secret that the members of a pool share and no other process knows, and the keyed hash that proves it.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string_view>

namespace farside {

using Digest = std::array<std::uint8_t, 32>;
using Nonce = std::array<std::uint8_t, 32>;

/// Never logged, never sent.
class Secret {
 public:
  /// Writes a new secret to `file` (mode 0600), which must not exist.
  [[nodiscard]] static Secret create(const std::filesystem::path& file);
  /// Writes this one to `file` in the same way.
  void save(const std::filesystem::path& file) const;
  /// Throws Error when the file belongs to another user, is open to others, or does not hold a secret.
  [[nodiscard]] static Secret load(const std::filesystem::path& file);

  /// HMAC-SHA-256 over `purpose`, a zero byte, and the parts. Distinct purposes keep one proof from serving as another.
  [[nodiscard]] Digest prove(std::string_view purpose, std::initializer_list<std::string_view> parts) const;

  /// A secret that only who knows this one can know: what was proven with it is proven for `purpose` alone.
  [[nodiscard]] Secret for_purpose(std::string_view purpose) const { return Secret(prove(purpose, {})); }

 private:
  explicit Secret(const Digest& bytes) : bytes_(bytes) {}

  Digest bytes_;
};

[[nodiscard]] Digest hmac_sha256(const Digest& key, std::string_view message);

/// Takes the same time wherever the two differ.
[[nodiscard]] bool equal_in_constant_time(std::span<const std::uint8_t> a, std::span<const std::uint8_t> b);

[[nodiscard]] Nonce random_nonce();

}  // namespace farside
