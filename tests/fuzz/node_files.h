// node_files.h — what a program has mapped of a node's files. It keeps them for ever; here there would be too many.
#pragma once

#include <charconv>
#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include <sys/mman.h>

namespace farside::fuzz {

/// The name of each memory file that stands for a node's.
inline constexpr const char* kNodeFileName = "farside fuzz node";

inline void unmap_node_files() {
  std::ifstream maps("/proc/self/maps");
  std::vector<std::span<char>> ours;
  for (std::string line; std::getline(maps, line);) {
    if (line.find(kNodeFileName) == std::string::npos) continue;
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    const char* const last = line.data() + line.size();
    const auto first = std::from_chars(line.data(), last, begin, 16);
    std::from_chars(first.ptr + 1, last, end, 16);
    ours.emplace_back(reinterpret_cast<char*>(begin), end - begin);  // NOLINT(performance-no-int-to-ptr)
  }
  for (const auto mapping : ours) ::munmap(mapping.data(), mapping.size());
}

}  // namespace farside::fuzz
