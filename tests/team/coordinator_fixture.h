// coordinator_fixture.h — a coordinator of two ranks, and members as a team has them.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "farside/base/error.h"

#include "net/runtime_dir.h"
#include "team/coordinator.h"
#include "team/coordinator_client.h"
#include "tests/support/shared.h"

namespace farside::test {

inline SetupClock::time_point soon() { return SetupClock::now() + std::chrono::seconds(20); }

/// A member as a team has it.
class Member {
 public:
  Member(const Coordinator& coordinator, const Secret& secret, Rank rank)
      : client_(loop_, coordinator.address(), secret, rank,
                {.lost =
                     [this](Rank lost, Loss loss) {
                       const std::lock_guard lock(mutex_);
                       losses_[lost] = loss;
                     },
                 .returned =
                     [this](Rank back, std::vector<std::string> blobs) {
                       const std::lock_guard lock(mutex_);
                       losses_.erase(back);
                       returns_[back] = std::move(blobs);
                     },
                 .coordinator_gone = [this](const std::string&) { abandoned_ = true; }},
                soon()) {}
  ~Member() { loop_.stop(); }

  CoordinatorClient* operator->() { return &client_; }
  EventLoop& loop() { return loop_; }
  bool abandoned() const { return abandoned_; }
  std::map<Rank, Loss> losses() {
    const std::lock_guard lock(mutex_);
    return losses_;
  }
  std::map<Rank, std::vector<std::string>> returns() {
    const std::lock_guard lock(mutex_);
    return returns_;
  }

 private:
  std::mutex mutex_;
  std::map<Rank, Loss> losses_;
  std::map<Rank, std::vector<std::string>> returns_;
  std::atomic<bool> abandoned_ = false;
  EventLoop loop_;
  CoordinatorClient client_;
};

class CoordinatorTest : public testing::Test {
 protected:
  /// Without an address, at a Unix socket.
  explicit CoordinatorTest(const std::string& address = "")
      : coordinator_(address.empty() ? (dir_.path() / "coordinator").string() : address, secret_, 2) {}

  /// Ranks 0 and 1 of a team of two are well as long as this holds.
  void expect_exchange(Member& zero, Member& one) {
    std::thread other([&] { EXPECT_THAT(one->exchange("try", "one", soon()), testing::ElementsAre("zero", "one")); });
    EXPECT_THAT(zero->exchange("try", "zero", soon()), testing::ElementsAre("zero", "one"));
    other.join();
  }

  /// Takes the seat of `rank` once the coordinator has seen that it is free; null when it does not become so.
  [[nodiscard]] std::unique_ptr<Member> take_free_seat(Rank rank) {
    std::unique_ptr<Member> member;
    (void)eventually([&] {
      try {
        member = std::make_unique<Member>(coordinator_, secret_, rank);
      } catch (const Error&) {
      }
      return member != nullptr;
    });
    return member;
  }

  JobDir dir_;
  Secret secret_ = Secret::create(dir_.path() / "secret");
  Coordinator coordinator_;
};

}  // namespace farside::test
