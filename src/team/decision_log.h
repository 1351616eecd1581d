// decision_log.h — the file with a coordinator's decisions (membership.h), each of which is on the disk before any
// process learns of it. The bytes are pictured in docs/protocols/team.md.
//
// Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "farside/base/error.h"
#include "farside/base/fd.h"

#include "team/membership.h"

namespace farside::team {

class DecisionLog {
 public:
  /// Has `team` take what the file says, or makes the file. A decision that was being written when the process or the
  /// machine ended is left out: no process had learnt of it. `terms`: what all members agree on beforehand. Throws
  /// Error when the file is of another team or damaged.
  /// A file of `large_bytes` is replaced by one with the state alone, when that is a quarter of it.
  DecisionLog(std::filesystem::path path, std::string terms, Membership& team, std::uint64_t large_bytes = 16U << 20U);

  /// Returns once it is on the disk. False, with errno set: it is unknown what is there, and nothing may be appended
  /// any more. Requires: `team` has not taken it yet.
  [[nodiscard]] bool append(const Decision& decision);

  /// The next coordinator begins another team. Returns whether the file is gone.
  bool remove() noexcept;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  void recover(const std::string& bytes);
  /// Begins a file whose first decision is the team's state. False, with errno set: the former file is as it was.
  [[nodiscard]] bool begin_file();
  [[nodiscard]] bool write(std::string_view body);
  [[nodiscard]] Error refusal(const std::string& why) const;

  const std::filesystem::path path_;
  const std::string terms_;
  Membership& team_;
  const std::uint64_t large_bytes_;
  Fd file_;
  std::uint64_t sequence_ = 0;  ///< of the next entry
  std::uint64_t bytes_ = 0;
  std::uint64_t bytes_at_first_ = 0;  ///< of the head and the state
};

}  // namespace farside::team
