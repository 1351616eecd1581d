// holder.h — what a thread says before it writes into a page: a rank that moves the page waits for it.
//
// Guarantee (with Mover): when `cover` has returned true, no copy of the page is made before `let_go`. For the mover
// first advances `revoked` and then looks at the holds, and this first sets the hold and then looks at `revoked`: one
// of the two sees the other.
#pragma once

#include <cstdint>

#include "base/assert.h"
#include "gas/protocol/page_memory.h"

namespace farside::gas {

class Holder {
 public:
  enum class For : std::uint8_t { puts, a_span };

  Holder(PageMemory& memory, Channel& channel, For what)
      : memory_(memory), channel_(channel), index_(memory.take_hold(channel)), word_(memory.own_hold(index_)) {
    hold_.pinned = what == For::a_span;
    hold_.turn = memory.fabric().random() % Hold::kTurns;  // not that of this hold's last use
  }
  /// A hold that was not let go stays: what was written under it may still land.
  ~Holder() {
    if (hold_.count != 0) return;
    channel_.local_fence();  // its next holder stores there later
    memory_.give_back_hold(index_);
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

  /// Whether `page` is where it was when `revoked` was `sampled`, and stays there until let_go. When not, a hold that
  /// covers other pages goes on.
  [[nodiscard]] bool cover(PageId page, std::uint64_t sampled) {
    const Hold before = hold_;
    if (!hold_.has(page)) {
      hold_ = hold_.with(page);
      assert_in_tests(hold_.has(page) && (before.count == 0 || hold_.has(before.first)),
                      "a hold that grows has what it had before");
      word_.store(hold_.word());
      if (memory_.rules().fences_hold) channel_.local_fence();
    }
    if (!memory_.rules().looks_before_writing || memory_.own_revoked(page).load() == sampled) return true;
    if (before.count == 0) let_go();
    return false;
  }
  /// Writes may still land, and the rank goes on: a rank that wants the pages waits, and does not take this one for
  /// stopped.
  void give_up() { mark(true); }
  /// The rank has no way left to learn when it has landed: it is waited for as one that has stopped.
  void abandon() { mark(false); }
  /// The writes are visible, or cannot land any more.
  void let_go() {
    if (hold_.count == 0) return;
    hold_ = {.first = 0, .count = 0, .turn = hold_.turn + 1, .pinned = hold_.pinned};
    if (hold_.pinned) channel_.local_fence();  // what the program stored in the page is there
    word_.store(0);
  }

 private:
  void mark(bool given_up) {
    if (hold_.count == 0) return;
    hold_.given_up = given_up;
    word_.store(hold_.word());
  }

  PageMemory& memory_;
  Channel& channel_;
  std::uint64_t index_;
  LocalWord<ControlWord> word_;
  Hold hold_;
};

}  // namespace farside::gas
