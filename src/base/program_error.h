// program_error.h — a program that the user named, and that cannot be run.
//
// Stands alone: the launcher of jobs and `farside exec` throw it, the frame of all commands catches it.
#pragma once

#include <cerrno>
#include <string>
#include <system_error>

#include "farside/base/error.h"

namespace farside {

/// The command exits with the code that shells give then.
class ProgramError : public Error {
 public:
  /// `cause`: errno as exec left it.
  ProgramError(const std::string& program, int cause)
      : Error({"run", program, std::generic_category().message(cause), "check its name and that it may be executed"}),
        exit_code_(cause == ENOENT ? 127 : 126) {}
  /// 127: there is no such program; 126: it cannot be executed.
  [[nodiscard]] int exit_code() const noexcept { return exit_code_; }

 private:
  int exit_code_;
};

}  // namespace farside
