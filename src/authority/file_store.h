// file_store.h — a coordinator's decisions in a file of its machine. The bytes are pictured in docs/protocols/team.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "farside/base/error.h"
#include "farside/base/fd.h"

#include "authority/decision_store.h"

namespace farside::authority {

class FileStore final : public DecisionStore {
 public:
  static constexpr std::uint64_t kLargeBytes = 16U << 20U;

  explicit FileStore(std::filesystem::path path, std::uint64_t large_bytes = kLargeBytes)
      : path_(std::move(path)), large_bytes_(large_bytes) {}

  /// An entry that was being written when the process or the machine ended is left out. Throws Error when the file is
  /// damaged elsewhere, or has no state.
  [[nodiscard]] std::vector<std::string> read() override;
  /// The file has its name only when all of `entries` are on the disk.
  Kept replace(std::span<const std::string> entries) override;
  /// Returns once it is on the disk.
  Kept append(std::string_view entry) override;
  bool remove() noexcept override;

  [[nodiscard]] std::uint64_t large_bytes() const override { return large_bytes_; }
  [[nodiscard]] std::string name() const override { return path_.string(); }
  [[nodiscard]] std::string why() const override { return why_; }

 private:
  [[nodiscard]] bool write(std::string_view body);
  Kept fail();
  [[nodiscard]] Error damage(std::size_t at) const;

  const std::filesystem::path path_;
  const std::uint64_t large_bytes_;
  Fd file_;
  std::uint64_t sequence_ = 0;  ///< of the next entry
  std::string why_;
};

}  // namespace farside::authority
