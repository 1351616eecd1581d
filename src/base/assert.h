// assert.h — assertions: what the code relies on, checked where it runs, in every build.
//
// A broken invariant ends the process with a message: going on could corrupt data, of this process or of a peer. What a
// peer, a user or the system can cause is no invariant, and is handled as an error.
#pragma once

#include <source_location>

namespace farside {

/// Prints `what` on standard error and aborts.
[[noreturn]] void fail_assertion(const char* what, const std::source_location& at) noexcept;

/// `what`: the invariant, as a sentence that is true.
inline void assert_that(bool holds, const char* what,
                        const std::source_location& at = std::source_location::current()) noexcept {
  if (!holds) [[unlikely]]
    fail_assertion(what, at);
}

/// For the hottest loops: looks in builds without NDEBUG alone.
inline void assert_in_tests(
    [[maybe_unused]] bool holds, [[maybe_unused]] const char* what,
    [[maybe_unused]] const std::source_location& at = std::source_location::current()) noexcept {
#ifndef NDEBUG
  assert_that(holds, what, at);
#endif
}

}  // namespace farside
