// symbols.h — what places in a program are called: the same in each of its runs, wherever it lies then.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sys/types.h>

#include "far/daemon/messages.h"

namespace farside::far {

/// The file that a process runs, without its folder; "unknown" when that is not to be had.
[[nodiscard]] std::string program_of(pid_t process);

struct Place {
  std::string name;      ///< "libfoo.so.1+0x12a4": the file, and how far from its begin in memory
  std::string function;  ///< that has it; empty when the file does not say
};
/// Returns the place of an instruction. An address that belongs to no file is "unknown".
[[nodiscard]] Place place_of(pid_t process, std::uint64_t address);

struct StaticArray {
  AddressRange range;  ///< whole pages
  std::string name;
};
/// Returns the objects in `range` that have a symbol in the program itself and are large enough to be worth a name; or
/// else all of `range`, named by its place.
[[nodiscard]] std::vector<StaticArray> static_arrays_in(pid_t process, const AddressRange& range);

}  // namespace farside::far
