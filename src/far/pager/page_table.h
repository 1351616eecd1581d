// page_table.h — one word a page: where its newest bytes are, and what is known of its use.
//
//   bits 0..2    state     see PageState
//   bit  3       waited    a thread sleeps until it is unlocked
//   bit  4       stored    the space holds bytes of it, perhaps old ones
//   bit  5       main      it came back soon after it left: see replacement.h
//   bit  6       carried   it had been written to when it left
//   bits 8..10   hint      what the program said of it
//   bits 16..31  stamp     when it came, or left; it wraps after 4096 budgets
//
// Guarantee: the thread that changed a word from another state to `locked` alone changes it, and the page, until it
// unlocks it. All words begin as 0: untouched.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "farside/far/hint.h"

#include "base/assert.h"
#include "base/lazy_array.h"

namespace farside::far {

inline constexpr std::size_t kPageBytes = 4096;

using PageNumber = std::uint32_t;

enum class PageState : std::uint32_t {
  untouched,  ///< zeros, here and in the space; absent
  far,        ///< in the space; absent
  locked,     ///< a thread is changing it
  foreign,    ///< not managed: it is never here, and never leaves
  clean,      ///< here, write-protected, equal to the space's
  dirty,      ///< here, not protected: newer than the space's
  leaving,    ///< here, write-protected; its bytes are on the way to the space
};

class PageWord {
 public:
  constexpr explicit PageWord(std::uint32_t bits = 0) : bits_(bits) {}

  [[nodiscard]] constexpr std::uint32_t bits() const { return bits_; }
  [[nodiscard]] constexpr PageState state() const { return static_cast<PageState>(bits_ & 7U); }
  [[nodiscard]] constexpr bool present() const { return state() >= PageState::clean; }
  [[nodiscard]] constexpr bool stored() const { return (bits_ & kStored) != 0; }
  [[nodiscard]] constexpr bool main() const { return (bits_ & kMain) != 0; }
  [[nodiscard]] constexpr bool carried() const { return (bits_ & kCarried) != 0; }
  [[nodiscard]] constexpr Hint hint() const { return static_cast<Hint>(bits_ >> 8U & 7U); }
  [[nodiscard]] constexpr std::uint16_t stamp() const { return static_cast<std::uint16_t>(bits_ >> 16U); }

  [[nodiscard]] constexpr PageWord with(PageState state) const {
    return PageWord((bits_ & ~7U) | static_cast<std::uint32_t>(state));
  }
  [[nodiscard]] constexpr PageWord with_stored(bool stored) const { return with_bit(kStored, stored); }
  [[nodiscard]] constexpr PageWord with_main(bool main) const { return with_bit(kMain, main); }
  [[nodiscard]] constexpr PageWord with_carried(bool carried) const { return with_bit(kCarried, carried); }
  [[nodiscard]] constexpr PageWord with_hint(Hint hint) const {
    return PageWord((bits_ & ~0x700U) | static_cast<std::uint32_t>(hint) << 8U);
  }
  [[nodiscard]] constexpr PageWord with_stamp(std::uint16_t stamp) const {
    return PageWord((bits_ & 0xffffU) | static_cast<std::uint32_t>(stamp) << 16U);
  }

  static constexpr std::uint32_t kWaited = 1U << 3U;

 private:
  static constexpr std::uint32_t kStored = 1U << 4U;
  static constexpr std::uint32_t kMain = 1U << 5U;
  static constexpr std::uint32_t kCarried = 1U << 6U;

  [[nodiscard]] constexpr PageWord with_bit(std::uint32_t bit, bool on) const {
    return PageWord(on ? bits_ | bit : bits_ & ~bit);
  }

  std::uint32_t bits_;
};

/// Thread safety: every call, from any thread and from fault handlers.
class PageTable {
 public:
  explicit PageTable(PageNumber pages) : words_(pages) {}

  [[nodiscard]] PageNumber size() const { return static_cast<PageNumber>(words_.size()); }
  [[nodiscard]] PageWord load(PageNumber page) const {
    assert_in_tests(page < words_.size(), "a page that is looked at is one of the table");
    return PageWord(words_[page].load(std::memory_order_acquire) & ~PageWord::kWaited);
  }

  /// Locks the page if its word is still `seen`, which is not locked.
  [[nodiscard]] bool try_lock(PageNumber page, PageWord seen) {
    assert_that(seen.state() != PageState::locked, "a page is locked by one thread at a time");
    std::uint32_t expected = seen.bits();
    return words_[page].compare_exchange_strong(expected, seen.with(PageState::locked).bits(),
                                                std::memory_order_acq_rel);
  }
  /// Locks it whatever its state is, and says what that was.
  [[nodiscard]] PageWord lock(PageNumber page);
  /// Gives it its next state, and wakes the waiting threads.
  void unlock(PageNumber page, PageWord next);
  void await_unlocked(PageNumber page);

 private:
  LazyArray<std::atomic<std::uint32_t>> words_;
};

}  // namespace farside::far
