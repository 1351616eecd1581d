// mover.h — brings pages to this rank, with no help from their home or their owner (docs/protocols/gas.md, "Owning").
//
// Guarantee: a put that returned before the move is in the page, one that begins later goes to its new place, and one
// in between ends before the page is copied. Whatever this process had done when it stopped, the page is where it was
// or where it went, and others can move it when its lease is over.
//
// For one thread, with nothing begun by its Accessor.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "gas/protocol/accessor.h"
#include "gas/protocol/reclaimer.h"

namespace farside::gas {

class Mover {
 public:
  explicit Mover(Accessor& accessor)
      : accessor_(accessor),
        memory_(accessor.memory()),
        channel_(accessor.channel()),
        directory_(accessor.directory()),
        reclaimer_(memory_, directory_) {}

  /// Returns when all of `pages` are here, or have been here meanwhile, but for those that cannot be brought. Those
  /// that a program has pinned, or to which puts were given up that may still land, are waited for.
  Moved own(std::span<const PageId> pages, Deadline deadline);

 private:
  /// A page under way.
  struct Move {
    PageId page;
    Location lock;  ///< the entry, locked by this
    std::uint64_t slot;
    std::vector<Sharers> sharers;
    bool given_up = false;
    bool published = false;
    bool in_doubt = false;  ///< it may be published yet
  };
  using Moves = std::vector<Move>;
  /// A rank's hold on a page that is to be moved.
  struct Held {
    team::Rank rank;
    std::uint64_t index;
    std::uint64_t word;
  };

  /// Tries each of `wanted` once, a part after the other, so that the cost grows with their number. Those that have
  /// come, or are lost, are not `wanted` any more.
  comm::Status own_each(std::vector<PageId>& wanted, Moved& moved, Deadline deadline);
  /// The same for a part.
  comm::Status own_some(std::vector<PageId>& wanted, Moved& moved, Deadline deadline);
  struct Places {
    comm::Status status;
    std::vector<Location> of_wanted;
  };
  /// Finds where the pages are. Leaves in `wanted` those that are elsewhere.
  Places find(std::vector<PageId>& wanted, Moved& moved, Deadline deadline);
  struct Locked {
    comm::Status status;
    Moves moves;
    bool full = false;  ///< no slot was free for the first of them
  };
  /// Locks those that rest, or whose lock was forgotten, as many as there are slots.
  Locked lock(std::span<const PageId> pages, std::span<const Location> places, Deadline deadline);
  comm::Status bring(Moves& moves, Deadline deadline);
  comm::Status read_sharers(Moves& moves, Deadline deadline);
  /// Guarantees that afterwards no rank writes to the places of the pages, except pages that were given up for now.
  comm::Status silence(Moves& moves, Deadline deadline);
  comm::Status revoke(Moves& moves, Deadline deadline);
  comm::Status await_holds(Moves& moves, Deadline deadline);
  struct Holds {
    comm::Status status;
    std::vector<Held> held;
  };
  [[nodiscard]] Holds find_holds(const Moves& moves, Deadline deadline);
  comm::Status await_hold(const Held& held, Moves& moves, Deadline deadline);
  /// Its pages stay where they are for now, if nothing says how long it lasts.
  [[nodiscard]] bool leaves_to_its_rank(const Hold& hold, Moves& moves) const;
  /// Goes on without those that are out of the team, though what they wrote may still land. Pages of others that are
  /// lost stay where they are for now.
  comm::Status pass_lost(Moves& moves, Deadline deadline);
  comm::Status distrust(team::Rank at, team::Rank lost, Deadline deadline);
  comm::Status copy(const Moves& moves, Deadline deadline);
  comm::Status publish(Moves& moves, Deadline deadline);
  void forget_sharers(const Moves& moves, Deadline deadline);
  void unlock(const Moves& moves);

  /// That are locked together.
  [[nodiscard]] std::uint64_t at_once() const;
  [[nodiscard]] std::vector<team::Rank> sharers_of(const Move& move) const;
  [[nodiscard]] static std::vector<PageId> pages_of(const Moves& moves);

  Accessor& accessor_;
  PageMemory& memory_;
  Channel& channel_;
  PageDirectory& directory_;
  Reclaimer reclaimer_;
  std::map<PageId, StandstillWatch> locks_;  // of others, as they were seen
};

}  // namespace farside::gas
