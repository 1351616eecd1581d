// rule.h — a rule on which the proof of a protocol stands.
//
// The installed library keeps every rule: there a Rule is a constant, and a branch on it is no branch. In a build with
// FARSIDE_BREAKABLE_RULES (the preset "breakable", and those of the sanitizers) a test breaks one at a time, to show
// that it would notice.
//
// Stands alone: the rules of all protocols are made of it.
#pragma once

#ifndef FARSIDE_BREAKABLE_RULES
#include <cstdlib>
#endif

namespace farside {

class Rule {
 public:
#ifdef FARSIDE_BREAKABLE_RULES
  static constexpr bool kBreakable = true;

  constexpr Rule(bool is_kept) : is_kept_(is_kept) {}
  constexpr operator bool() const { return is_kept_; }

 private:
  bool is_kept_;
#else
  static constexpr bool kBreakable = false;

  /// Requires that the rule is kept; ends the process otherwise.
  constexpr Rule(bool is_kept) {
    if (!is_kept) std::abort();
  }
  constexpr operator bool() const { return true; }
#endif
};

}  // namespace farside
