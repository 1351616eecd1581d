// fiber.h — a call stack of its own that can be suspended and resumed.
//
// A simulated thread. When its process is killed it is frozen: never resumed and never unwound, since a dead
// process runs no destructors. What it owned stays in memory, as the memory of a dead machine does.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include <boost/context/fiber.hpp>

namespace farside::sim {

class Fiber {
 public:
  explicit Fiber(std::function<void()> body);
  /// Freezes a fiber that has not finished.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs the fiber until it leaves or finishes. Rethrows what its body threw.
  void resume();
  /// Called within the fiber: goes back to the caller of resume.
  void leave();
  [[nodiscard]] bool finished() const noexcept { return finished_; }

 private:
  struct Stack;

  std::function<void()> body_;
  std::unique_ptr<Stack> stack_;
  boost::context::fiber inside_;
  boost::context::fiber outside_;
  std::exception_ptr failure_;
  bool finished_ = false;
};

}  // namespace farside::sim
