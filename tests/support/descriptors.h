// descriptors.h — what a process has open and in memory, for whoever wants to see that nothing is leaked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <unistd.h>

namespace farside::test {

/// Of this process, or the one with that pid. Of its own, one is the look itself.
inline std::size_t open_descriptors(const std::string& process = "self") {
  const std::filesystem::directory_iterator all("/proc/" + process + "/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

inline std::uint64_t resident_bytes(const std::string& process = "self") {
  std::ifstream file("/proc/" + process + "/statm");
  std::uint64_t pages = 0;
  file >> pages >> pages;  // of the address space, then resident
  return pages * static_cast<std::uint64_t>(::getpagesize());
}

}  // namespace farside::test
