// secret.h — the secret that the members of a pool share and no other process knows, and the keyed hash that proves it.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/hmac.h"

namespace farside::net {

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

  /// A secret that only a process that knows this one can know: what was proven with it is proven for `purpose` alone.
  [[nodiscard]] Secret for_purpose(std::string_view purpose) const { return Secret(prove(purpose, {})); }

  /// For HostFabricOptions::secret. Tells nothing about this one.
  [[nodiscard]] std::string for_fabric() const;
  /// Another secret has another mark, which tells nothing of it: as text.
  [[nodiscard]] std::string mark() const;

 private:
  explicit Secret(const Digest& bytes) : bytes_(bytes) {}

  Digest bytes_;
};

}  // namespace farside::net
