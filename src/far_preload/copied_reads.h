// copied_reads.h — which reads the kernel copies into the program's memory, and which a device may write there.
#pragma once

#include <cstdint>

#include <sys/types.h>

namespace farside::far_preload {

/// The kind of an open file: it decides how bytes reach the memory that is given to `read`.
struct OpenFile {
  mode_t mode;                ///< st_mode
  dev_t device;               ///< st_rdev
  std::uint32_t file_system;  ///< f_type, by its low 32 bits
  bool is_direct;             ///< O_DIRECT
};

/// Returns whether the kernel is known to copy. False for all that is not known.
bool is_copied(const OpenFile& file);

/// The same of a descriptor, as it is now: its flags and its file may change at any time.
bool is_copied(int fd);

}  // namespace farside::far_preload
