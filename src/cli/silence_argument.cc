#include "cli/silence_argument.h"

#include "farside/base/error.h"
#include "farside/base/units.h"

#include "team/liveness.h"

namespace farside::cli {

std::string silence_text(std::chrono::milliseconds time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()) + "s";
}

std::chrono::milliseconds parse_silence(const std::string& text) {
  const std::chrono::milliseconds time = parse_duration(text, "--silence");
  if (time < team::kMinSilence || time > team::kMaxSilence) {
    throw UsageError(
        {"wait for an unresponsive node of another machine for", "--silence " + text, "it is out of range",
         "give a time from " + silence_text(team::kMinSilence) + " to " + silence_text(team::kMaxSilence)});
  }
  return time;
}

}  // namespace farside::cli
