// fleet.h — real processes for a test: forked from it, meeting at barriers, ended with it.
//
//   Fleet fleet(3, [](Member& me) {
//     const auto names = me.exchange("I am " + std::to_string(me.index()));
//     EXPECT_EQ(names[0], "I am 0");
//   });
//   fleet.expect_success();
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "tests/support/shared.h"

namespace farside::test {

/// Where members leave texts for each other. Rounds alternate between two sets of slots: a member that writes in
/// round r + 2 knows that all members came to r + 1, and so have read round r.
struct Board {
  static constexpr unsigned kMaxMembers = 16;
  struct Slot {
    std::uint32_t bytes;
    std::array<char, 8192> text;
  };
  std::atomic<std::uint32_t> arrivals;  ///< of all rounds so far
  std::array<std::array<Slot, kMaxMembers>, 2> slots;
};

/// One process of a fleet, seen from inside.
class Member {
 public:
  Member(unsigned index, unsigned count, Board& board) : index_(index), count_(count), board_(board) {}

  [[nodiscard]] unsigned index() const noexcept { return index_; }
  [[nodiscard]] unsigned count() const noexcept { return count_; }

  /// Collective: the texts of all members, by index. Throws when not all have come after a minute.
  std::vector<std::string> exchange(std::string_view mine);
  void barrier() { exchange({}); }

 private:
  unsigned index_;
  unsigned count_;
  Board& board_;
  std::uint32_t round_ = 0;
};

class Fleet {
 public:
  using Body = std::function<void(Member&)>;

  /// Forks `processes` members that run `body`. Their EXPECT and ASSERT failures and exceptions become exit code 1.
  Fleet(unsigned processes, const Body& body);
  /// Kills who is left.
  ~Fleet();
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;

  [[nodiscard]] pid_t pid(unsigned index) const { return pids_.at(index); }
  void signal(unsigned index, int signal_number) const;
  /// Has the member stopped when it returns, until it is sent SIGCONT.
  void stop(unsigned index) const;

  /// Waits for the end of a member: its wait status, as waitpid gives it. Kills it if it takes too long.
  int wait(unsigned index);
  /// Waits for each and expects that it returned from its body without a failure.
  void expect_success();

 private:
  Shared<Board> board_;
  std::vector<pid_t> pids_;  ///< 0 once waited for
};

}  // namespace farside::test
