// kernel.h — computations that use more memory than there is: those of Goto et al., remote swap memory, or in their
// manner. Each is one thread, and computes the same to the last bit wherever its memory lies.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "bench/far/kernels/memory.h"

namespace farside::bench {

class Kernel {
 public:
  virtual ~Kernel() = default;
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  /// Once, before `run`: fills its arrays. No page is left alike all over: what compresses pages has no easy game.
  virtual void prepare() = 0;
  /// Once: what is timed.
  virtual void run() = 0;
  /// A number made of all that was computed. Throws std::runtime_error when that cannot be right.
  [[nodiscard]] virtual std::uint64_t checked() const = 0;
  /// How many operations `run` is, where they have a name: floating-point operations, or bytes.
  [[nodiscard]] virtual double operations() const { return 0; }

 protected:
  Kernel() = default;
};

struct KernelSize {
  std::uint64_t bytes;  ///< all arrays together, about
  unsigned rounds;
};

struct KernelKind {
  std::string_view name;
  std::string_view about;
  KernelSize size;  ///< the paper's memory, and so many rounds that a run takes seconds
  std::unique_ptr<Kernel> (*make)(Memory&, KernelSize);
};

[[nodiscard]] std::span<const KernelKind> kernel_kinds();
/// Throws std::invalid_argument when there is none of that name.
[[nodiscard]] const KernelKind& kernel_kind(std::string_view name);

std::unique_ptr<Kernel> make_quicksort(Memory& memory, KernelSize size);
std::unique_ptr<Kernel> make_himeno(Memory& memory, KernelSize size);
std::unique_ptr<Kernel> make_bt(Memory& memory, KernelSize size);
std::unique_ptr<Kernel> make_lu(Memory& memory, KernelSize size);
std::unique_ptr<Kernel> make_lu_hp(Memory& memory, KernelSize size);
std::unique_ptr<Kernel> make_mg(Memory& memory, KernelSize size);
std::unique_ptr<Kernel> make_sp(Memory& memory, KernelSize size);
std::unique_ptr<Kernel> make_ua(Memory& memory, KernelSize size);
std::unique_ptr<Kernel> make_write_lines(Memory& memory, KernelSize size);
std::unique_ptr<Kernel> make_reread_lines(Memory& memory, KernelSize size);

}  // namespace farside::bench
