// command_time.h — the time that a command has as a whole (--timeout), which its steps share.
//
// Stands alone: tests have a clock of their own.
#pragma once

#include <algorithm>
#include <chrono>

namespace farside::cli {

class CommandTime {
 public:
  using Clock = std::chrono::steady_clock;
  using Now = Clock::time_point (*)();

  /// It begins now.
  explicit CommandTime(std::chrono::milliseconds limit, Now now = &Clock::now)
      : limit_(limit), now_(now), began_(now()) {}

  [[nodiscard]] std::chrono::milliseconds limit() const noexcept { return limit_; }
  /// At least 1 ms: a step that has no time fails by itself, and says what it waited for.
  [[nodiscard]] std::chrono::milliseconds left() const {
    const auto taken = std::chrono::ceil<std::chrono::milliseconds>(now_() - began_);
    return std::max(limit_ - taken, std::chrono::milliseconds(1));
  }

 private:
  const std::chrono::milliseconds limit_;
  const Now now_;
  const Clock::time_point began_;
};

/// Opens a session of `client`, and gives its next call what is left then: both together take what is left of the
/// command's time.
template <class Client, class Options>
auto open_session_within(const CommandTime& time, Client& client, Options options) {
  options.time_out = time.left();
  auto session = client.open_session(options);
  session->set_time_out(time.left());
  return session;
}

}  // namespace farside::cli
