// command.h — a program run by a test: what it prints, how it ends, and what it leaves behind.
#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

#include "farside/base/fd.h"

namespace farside::test {

struct CommandEnd {
  int status;  ///< as waitpid gives it
  std::string out;
  std::string err;

  /// The exit code, as a shell gives it.
  [[nodiscard]] int code() const;
};

/// A running program. It and its descendants carry a mark in their environment, by which they are found.
class Command {
 public:
  explicit Command(const std::vector<std::string>& command, const std::string& input = "");
  /// Kills whatever carries the mark.
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] std::string out() const;

  /// The pids of it and its descendants, however they were adopted.
  [[nodiscard]] std::vector<pid_t> processes() const;

  /// Waits for its end, for at most a minute and a half, longer where machines are emulated.
  CommandEnd wait();

 private:
  std::string mark_;
  Fd input_;
  Fd out_;
  Fd err_;
  pid_t pid_ = 0;
};

/// Runs `command` to its end and expects that it leaves no process behind.
CommandEnd run(const std::vector<std::string>& command, const std::string& input = "");

}  // namespace farside::test
