// swap_file.h — swap of the kernel's, in a file.
#pragma once

#include <cstdint>
#include <filesystem>

namespace farside::bench {

/// In use, before all other swap, until this object goes; then the file is removed. Throws Error when it cannot be: it
/// takes root, and a file system on a disk.
class SwapFile {
 public:
  SwapFile(std::filesystem::path path, std::uint64_t bytes);
  ~SwapFile();
  SwapFile(const SwapFile&) = delete;
  SwapFile& operator=(const SwapFile&) = delete;

 private:
  std::filesystem::path path_;
};

}  // namespace farside::bench
