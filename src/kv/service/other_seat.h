// other_seat.h — what the process in the partition's other seat says of its copy, for a process that has a copy on its
// disk and none in memory. A thread that sleeps otherwise connects, so that the one that serves never waits.
//
// Thread safety: one thread at a time.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "kv/service/link_messages.h"
#include "net/secret.h"

namespace farside::kv {

class OtherSeat {
 public:
  /// `self`: as this process says of itself. `address`: where the other seat is now; it may block.
  OtherSeat(const net::Secret& secret, std::function<std::string()> address, Welcome self);

  /// A process that waits as this one does.
  struct Waiting {
    CopyClaim claim;
    std::uint16_t incarnation;
  };
  /// The one that gave the last answer. Never waits.
  [[nodiscard]] std::optional<Waiting> waiting() const;
  /// It is asked no more. Never waits.
  void stop() noexcept { thread_.request_stop(); }

 private:
  void ask_again_and_again(const std::stop_token& stop);
  [[nodiscard]] std::optional<Waiting> ask() const;

  const net::Secret secret_;
  const std::function<std::string()> address_;
  const Welcome self_;
  mutable Mutex mutex_;
  std::condition_variable_any ends_;
  std::optional<Waiting> waiting_ GUARDED_BY(mutex_);
  std::jthread thread_;
};

}  // namespace farside::kv
