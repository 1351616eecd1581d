// crew.h — threads that do something together, and sleep in between.
#pragma once

#include <barrier>
#include <functional>
#include <thread>
#include <vector>

namespace farside::bench {

class Crew {
 public:
  using Body = std::function<void(unsigned index)>;

  /// The thread that calls run() is one of `count`.
  explicit Crew(unsigned count) : gate_(count) {
    for (unsigned index = 1; index < count; ++index) threads_.emplace_back([this, index] { serve(index); });
  }
  ~Crew() {
    body_ = nullptr;
    gate_.arrive_and_wait();
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  void run(Body body) {
    body_ = std::move(body);
    gate_.arrive_and_wait();
    body_(0);
    gate_.arrive_and_wait();
  }

 private:
  void serve(unsigned index) {
    for (;;) {
      gate_.arrive_and_wait();
      if (!body_) return;
      body_(index);
      gate_.arrive_and_wait();
    }
  }

  std::barrier<> gate_;
  Body body_;
  std::vector<std::jthread> threads_;
};

}  // namespace farside::bench
