// seal.h — a magic number and a checksum around what processes tell each other before they meet.
//
// A handle that was altered on its way could lead to other memory, and an address or a key that UCX cannot make sense
// of crashes the process. This finds accidents and versions that do not fit together; it does not authenticate.
//
//   magic     4 bytes   what it is, and the version of its layout
//   checksum  8 bytes   XXH3 of the content
//   content   the rest
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace farside {

/// The last digit is the version. It also stands for the messages that follow (ucx/messages.h).
enum class SealKind : std::uint32_t {
  process = 0xfa51adb1,
  region = 0xfa51adc1,
  address = 0xfa51ade4,
  memory = 0xfa51ad41,
  hello = 0xfa51ad74,
};

[[nodiscard]] std::string seal(SealKind kind, std::string_view content);

/// The content. Throws Error naming `what` when it is not what `kind` says or not as it was sealed.
[[nodiscard]] std::string_view unseal(SealKind kind, std::string_view sealed, std::string_view what);

}  // namespace farside
