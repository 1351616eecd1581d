// swap_file.h — swap of the kernel's, in a file.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>

namespace farside::bench {

/// In use, before all other swap, until this object goes or the process ends, however that ends; then the file is
/// removed. Throws Error when it cannot be: it takes root, and a file system on a disk.
class SwapFile {
 public:
  SwapFile(std::filesystem::path path, std::uint64_t bytes);
  ~SwapFile();
  SwapFile(const SwapFile&) = delete;
  SwapFile& operator=(const SwapFile&) = delete;

 private:
  std::filesystem::path path_;
  std::FILE* remover_ = nullptr;  ///< a shell that waits for the end of this pipe
};

}  // namespace farside::bench
