// silence_argument.h — --silence, of the commands that start a coordinator.
//
// Stands alone: two commands take it.
#pragma once

#include <chrono>
#include <string>

namespace farside::cli {

/// Returns a time as text, as the option takes it.
[[nodiscard]] std::string silence_text(std::chrono::milliseconds time);
/// Throws UsageError when it is none, or out of range (team/liveness.h).
[[nodiscard]] std::chrono::milliseconds parse_silence(const std::string& text);

}  // namespace farside::cli
