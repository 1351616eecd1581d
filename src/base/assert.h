// assert.h — assertions: what the code relies on, checked where it runs, in every build.
//
// A broken invariant ends the process with a message: going on could corrupt data, of this process or of a peer. What a
// peer, a user or the system can cause is no invariant, and is handled as an error.
#pragma once

namespace farside {

/// Prints `what` on standard error and aborts.
[[noreturn]] void fail_assertion(const char* what, const char* file, int line, const char* function) noexcept;

/// `what`: the invariant, as a sentence that is true. The rest is the place of the call: clang 14 knows no
/// std::source_location.
inline void assert_that(bool holds, const char* what, const char* file = __builtin_FILE(), int line = __builtin_LINE(),
                        const char* function = __builtin_FUNCTION()) noexcept {
  if (!holds) [[unlikely]]
    fail_assertion(what, file, line, function);
}

/// For the hottest loops: looks in builds without NDEBUG alone.
inline void assert_in_tests([[maybe_unused]] bool holds, [[maybe_unused]] const char* what,
                            [[maybe_unused]] const char* file = __builtin_FILE(),
                            [[maybe_unused]] int line = __builtin_LINE(),
                            [[maybe_unused]] const char* function = __builtin_FUNCTION()) noexcept {
#ifndef NDEBUG
  assert_that(holds, what, file, line, function);
#endif
}

}  // namespace farside
