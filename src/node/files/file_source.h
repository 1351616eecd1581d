// file_source.h — loads blocks through a descriptor that a program of the host has open.
#pragma once

#include "farside/cache/cache.h"

#include "node/files/file_system.h"

namespace farside::node {

class FileSource final : public cache::BlockSource {
 public:
  /// Both must outlive the source. `times`: as examined.
  FileSource(const Fd& file, TimesFrom times, FileSystems& file_systems, std::uint64_t block_bytes)
      : file_(file), times_(times), file_systems_(file_systems), block_bytes_(block_bytes) {}

  /// Whole blocks of the version that `key` names, which stay right for as long as the file has this version's times;
  /// or kFailed. The file is looked at once more after the read.
  std::uint64_t load(const cache::BlockKey& key, LocalSpan into) override;
  /// Whether it was asked for a block: no node had it.
  [[nodiscard]] bool was_read() const noexcept { return was_read_; }

 private:
  const Fd& file_;
  TimesFrom times_;
  FileSystems& file_systems_;
  std::uint64_t block_bytes_;
  bool was_read_ = false;
};

}  // namespace farside::node
