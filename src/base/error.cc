#include "farside/base/error.h"

#include <cerrno>
#include <system_error>

namespace farside {

namespace {

std::string describe(const Failure& failure) {
  std::string text = "cannot " + failure.tried;
  if (!failure.on.empty()) text += " " + failure.on;
  if (!failure.why.empty()) text += ": " + failure.why;
  if (!failure.remedy.empty()) text += "; " + failure.remedy;
  return text;
}

}  // namespace

Error::Error(Failure failure) : std::runtime_error(describe(failure)), failure_(std::move(failure)) {}

Error errno_error(std::string tried, std::string on, std::string remedy) {
  const int code = errno;
  return Error({std::move(tried), std::move(on), std::generic_category().message(code), std::move(remedy)});
}

}  // namespace farside
