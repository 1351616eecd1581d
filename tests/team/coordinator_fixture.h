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

inline net::SetupClock::time_point soon() { return net::SetupClock::now() + std::chrono::seconds(20); }

/// A member as a team has it.
class Member {
 public:
  Member(const team::Coordinator& coordinator, const net::Secret& secret, team::Rank rank)
      : Member(coordinator.address(), secret, rank) {}
  Member(const std::string& address, const net::Secret& secret, team::Rank rank)
      : client_(loop_, address, secret, rank,
                {.lost =
                     [this](team::Rank lost, team::Loss loss) {
                       const std::lock_guard lock(mutex_);
                       losses_[lost] = loss;
                     },
                 .returned =
                     [this](team::Rank back, std::vector<std::string> blobs) {
                       const std::lock_guard lock(mutex_);
                       losses_.erase(back);
                       returns_[back] = std::move(blobs);
                     },
                 .coordinator_gone = [this](const std::string&) { abandoned_ = true; },
                 .coordinator_away = [this](bool is_lost) { away_ = is_lost; }},
                soon()) {}
  ~Member() { loop_.stop(); }

  team::CoordinatorClient* operator->() { return &client_; }
  const team::CoordinatorClient* operator->() const { return &client_; }
  net::EventLoop& loop() { return loop_; }
  bool abandoned() const { return abandoned_; }
  bool is_without_coordinator() const { return away_; }
  std::map<team::Rank, team::Loss> losses() {
    const std::lock_guard lock(mutex_);
    return losses_;
  }
  std::map<team::Rank, std::vector<std::string>> returns() {
    const std::lock_guard lock(mutex_);
    return returns_;
  }

 private:
  std::mutex mutex_;
  std::map<team::Rank, team::Loss> losses_;
  std::map<team::Rank, std::vector<std::string>> returns_;
  std::atomic<bool> abandoned_ = false;
  std::atomic<bool> away_ = false;
  net::EventLoop loop_;
  team::CoordinatorClient client_;
};

/// Ranks 0 and 1 of a team of two are well as long as this holds.
inline void expect_exchange(Member& zero, Member& one) {
  std::thread other([&] { EXPECT_THAT(one->exchange("try", "one", soon()), testing::ElementsAre("zero", "one")); });
  EXPECT_THAT(zero->exchange("try", "zero", soon()), testing::ElementsAre("zero", "one"));
  other.join();
}

class CoordinatorTest : public testing::Test {
 protected:
  /// Without an address, at a Unix socket.
  explicit CoordinatorTest(const std::string& address = "")
      : coordinator_(address.empty() ? (dir_.path() / "coordinator").string() : address, secret_, 2) {}

  /// Takes the seat of `rank` once the coordinator has seen that it is free; null when it does not become so.
  [[nodiscard]] std::unique_ptr<Member> take_free_seat(team::Rank rank) {
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

  net::JobDir dir_;
  net::Secret secret_ = net::Secret::create(dir_.path() / "secret");
  team::Coordinator coordinator_;
};

}  // namespace farside::test
