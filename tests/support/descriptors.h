// descriptors.h — how many descriptors this process has open, for whoever wants to see that none is leaked.
#pragma once

#include <cstddef>
#include <filesystem>
#include <iterator>

namespace farside::test {

/// One of them is the look itself.
inline std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

}  // namespace farside::test
