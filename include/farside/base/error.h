// error.h — the one exception type of farside.
//
// A failure to set something up throws Error. Outcomes that a caller acts on (a deadline passed, a peer died) are
// return values and never thrown.
#pragma once

#include <stdexcept>
#include <string>

namespace farside {

/// Says what was tried, on what, why it failed and what the user can do about it.
struct Failure {
  std::string tried;   ///< "open the runtime directory"
  std::string on;      ///< "/run/user/1000/farside"
  std::string why;     ///< "Permission denied"
  std::string remedy;  ///< "set FARSIDE_RUNTIME_DIR to a directory that you own"
};

/// what() reads "cannot <tried> <on>: <why>; <remedy>".
class Error : public std::runtime_error {
 public:
  explicit Error(Failure failure);
  [[nodiscard]] const Failure& failure() const noexcept { return failure_; }

 private:
  Failure failure_;
};

/// The user's own mistake: a bad argument, a bad environment variable. The command exits with 2 on it.
class UsageError : public Error {
 public:
  using Error::Error;
};

/// An Error whose reason is errno as it stands at the call.
[[nodiscard]] Error errno_error(std::string tried, std::string on, std::string remedy = {});

}  // namespace farside
