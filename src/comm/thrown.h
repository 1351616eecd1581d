// thrown.h — exceptions of the program's own code, which the service thread survives.
//
// Stands alone: groups, messages and the service call the program's code.
#pragma once

#include <exception>
#include <string>

namespace farside::comm {

/// Returns the exception that `act` throws; null when there is none.
template <class Act>
[[nodiscard]] std::exception_ptr thrown_by(Act&& act) {
  try {
    act();
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

/// For a log.
[[nodiscard]] inline std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& thrown) {
    return thrown.what();
  } catch (...) {
    return "something that is no std::exception";
  }
}

}  // namespace farside::comm
