// threads.h — the cores that a rank computes with.
//
// Threads sleep while there is nothing to do: several processes share the cores of a host.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace farside::arrays {

/// The work on the pieces from `first` to before `last`. Refers to a callable, which outlives it.
class Work {
 public:
  template <class Callable>
  requires(!std::is_same_v<std::remove_cvref_t<Callable>, Work>)
      Work(const Callable& callable)  // NOLINT: as a function parameter
      : callable_(&callable), call_([](const void* called, std::uint64_t first, std::uint64_t last) {
          (*static_cast<const Callable*>(called))(first, last);
        }) {}

  void operator()(std::uint64_t first, std::uint64_t last) const { call_(callable_, first, last); }

 private:
  const void* callable_;
  void (*call_)(const void*, std::uint64_t, std::uint64_t);
};

class Threads {
 public:
  /// At least one, the caller's, and at most as many as there are cores.
  explicit Threads(unsigned count);
  ~Threads();
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  [[nodiscard]] unsigned count() const noexcept { return count_; }

  /// Does `work` for all of `pieces`, `grain` or more at a time, and returns when it is done. What it throws ends it.
  void run(std::uint64_t pieces, std::uint64_t grain, Work work) const;

 private:
  struct Pool;

  const unsigned count_;
  std::unique_ptr<Pool> pool_;  ///< none when the caller is the only one
};

}  // namespace farside::arrays
