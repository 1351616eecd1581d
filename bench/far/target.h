// target.h — what random reads and writes are measured on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace farside::bench {

class Target {
 public:
  virtual ~Target() = default;
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  // Each throws when it cannot.
  virtual void read(std::span<std::byte> into, std::uint64_t offset) = 0;
  virtual void write(std::span<std::byte> from, std::uint64_t offset) = 0;

 protected:
  Target() = default;
};

/// "pool", of which `bytes` are taken; "nbdkit PLUGIN PARAMETER", which is started; "file PATH", past the page cache.
[[nodiscard]] std::unique_ptr<Target> make_target(std::span<const std::string> words, std::uint64_t bytes);

}  // namespace farside::bench
