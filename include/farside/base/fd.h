// fd.h — owners of descriptors and mappings. Each resource has exactly one, and it is move-only.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

namespace farside {

/// Owns a file descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) noexcept : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }

  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] explicit operator bool() const noexcept { return fd_ >= 0; }
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }
  void reset() noexcept;

 private:
  int fd_ = -1;
};

/// An anonymous memory file of `bytes`, sealed against shrinking, so that a process that maps it never gets SIGBUS.
[[nodiscard]] Fd make_memfd(const std::string& name, std::size_t bytes);

/// The processor's large pages. One entry of its translation caches then covers what else takes 512.
inline constexpr std::size_t kLargePageBytes = std::size_t{2} << 20U;

/// Owns a shared mapping of a file, aligned so that the kernel may map large pages of it as such.
class Mapping {
 public:
  enum class Access { read_only, read_write, private_to_process };

  Mapping() = default;
  /// `private_to_process`: read and write, and no child of fork has it, not even of a fork by another thread meanwhile,
  /// nor has a core dump.
  Mapping(const Fd& file, std::size_t bytes, Access access);
  Mapping(Mapping&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

  /// Puts empty private memory in the place of the file: its memory goes, the addresses stay taken. False, with errno
  /// set, when the kernel does not let us; the file stays mapped then.
  [[nodiscard]] bool blank() noexcept;

  [[nodiscard]] std::byte* base() const noexcept { return base_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace farside
