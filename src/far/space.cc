#include "farside/far/space.h"

#include <array>

namespace farside::far {

std::string_view to_string(Status status) {
  constexpr std::array<std::string_view, 4> kNames{"done", "timed out", "lost", "full"};
  return kNames.at(static_cast<std::size_t>(status));
}

}  // namespace farside::far
