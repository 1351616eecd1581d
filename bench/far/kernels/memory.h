// memory.h — where a kernel's arrays lie. Kernels take memory from here and nowhere else, so that the same kernel runs
// in ordinary memory, in a mapped file and in a far heap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace farside::bench {

/// What a kernel does to an array while it is timed.
enum class Use : std::uint8_t { updated, read_mostly };

/// What was brought to this memory and carried away from it, so far.
struct Traffic {
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
};

class Memory {
 public:
  virtual ~Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  /// Zeros, at an address for any type. They stay until this object goes. Throws when there is no room.
  [[nodiscard]] virtual void* take(std::size_t bytes, Use use) = 0;
  [[nodiscard]] virtual Traffic traffic() const = 0;

 protected:
  Memory() = default;
};

template <class T>
[[nodiscard]] std::span<T> take(Memory& memory, std::size_t count, Use use) {
  return {static_cast<T*>(memory.take(count * sizeof(T), use)), count};
}

}  // namespace farside::bench
