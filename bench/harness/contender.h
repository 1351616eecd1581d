// contender.h — a program that is measured: a child process that answers questions, one line each.
//
// Each contender runs apart from the others and sleeps between its turns, so that programs that could not live in one
// process (farside, raw UCX, MPI, a program under LD_PRELOAD) take turns within one repetition.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

#include "farside/base/fd.h"

namespace farside::bench {

/// Owns a child process, the leader of a process group. Lets it end by itself for a while, then ends the group.
class Child {
 public:
  explicit Child(pid_t pid) noexcept : pid_(pid) {}
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

 private:
  pid_t pid_;
};

class Contender {
 public:
  struct Program {
    std::vector<std::string> command;                     ///< found in PATH when it has no slash
    std::map<std::string, std::string> environment = {};  ///< beside the caller's own
    std::chrono::seconds timeout{240};                    ///< for each line that it says
  };

  /// Starts it and awaits its first line, "ready". Throws Error when that does not come.
  /// Status with this object.
  Contender(const std::string& name, const Program& program);
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  /// Puts a question and awaits its answer. Throws Error when the contender ends or says nothing for too long.
  [[nodiscard]] std::string ask(const std::string& question) {
    put(question);
    return answer();
  }
  /// The two halves of it, for contenders that work at the same time.
  void put(const std::string& question);
  [[nodiscard]] std::string answer() { return read_line("hear from"); }

 private:
  struct Started;
  Contender(std::string name, std::chrono::seconds timeout, Started started);
  [[nodiscard]] std::string read_line(const std::string& tried);

  std::string name_;
  std::chrono::seconds timeout_;
  Child child_;  // goes last: with its input closed it ends by itself
  Fd to_;
  Fd from_;
  std::string received_;  ///< beyond the last line given out
};

/// A program of farside's own benchmarks: they lie side by side.
[[nodiscard]] std::filesystem::path sibling_program(const std::string& name);

/// Whether PATH has `program`.
[[nodiscard]] bool installed(const std::string& program);

}  // namespace farside::bench
