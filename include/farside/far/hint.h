// hint.h — what a program may say of a range of far memory. Hints change no contents, only what stays near.
#pragma once

#include <cstdint>

namespace farside::far {

enum class Hint : std::uint8_t {
  none,
  read_mostly,  ///< seldom written: leaves before what is written again and again
  updated,      ///< written again and again: leaves last, so that it is not carried to and fro
  sequential,   ///< read or written from one end to the other: much is fetched ahead, and leaves soon
  /// Fetched at once, and never leaves; system calls may touch it. Required of memory that a device writes into, in
  /// both modes of a heap: by O_DIRECT reads, io_uring, libaio, vmsplice, RDMA, and reads of file systems that read
  /// directly (FUSE, 9p, CIFS, ZFS, Lustre). If the page were evicted before the device writes, the bytes would be
  /// lost.
  pinned,
  done,  ///< not needed soon: leaves first
};

}  // namespace farside::far
