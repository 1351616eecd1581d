// leases.h — the cells that say `loading` by this node, while it reads from the file system.
//
// Others take a loader's place when its cell has not changed for the lease (acquire.h). A file system may take longer
// than that, and the thread that loads is inside it meanwhile; so another thread of the node changes the cell in its
// place: the same word, its nonce one more. A load that goes on for time_limits::kMaxLoad is not vouched for any
// longer: perhaps it hangs on this host only.
//
// Guarantee: once end() has returned a row, no renewal of its cell is under way, unless the deadline had passed.
//
// Thread safety: every call, from any thread; each brings its own Channel.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <vector>

#include "farside/team/team.h"

#include "base/mutex.h"
#include "cache/directory.h"

namespace farside::cache {

class Leases {
 public:
  Leases(Fabric& fabric, const Directory& directory, std::uint32_t group, Duration lease)
      : fabric_(fabric), directory_(directory), group_(group), interval_(lease / 5) {}

  /// A load under way.
  struct Load {
    Row row;  ///< with the cell as it was last known
    Time begun{};
    Time renewed{};
    bool renewing = false;
    bool over = false;  ///< while it was renewed: the renewing thread forgets it
    /// The cell as a renewal that failed would have made it. Either another node has taken the cell, or the renewal got
    /// no answer: then the cell is one or the other.
    std::optional<Cell> in_doubt;
  };
  using Ticket = std::list<Load>::iterator;

  /// The cell of `row` says that this node loads; from now on it may be renewed.
  [[nodiscard]] Ticket begin(const Row& row);
  /// It says so no longer soon. Returns what is known of it.
  [[nodiscard]] Load end(Ticket load, Deadline deadline);
  /// Renews what is due.
  void renew(Channel& channel, Deadline deadline);

 private:
  [[nodiscard]] std::vector<Ticket> take_due();
  void renew_one(Channel& channel, Ticket load, Deadline deadline);

  Fabric& fabric_;
  const Directory& directory_;
  const std::uint32_t group_;
  const Duration interval_;
  Mutex mutex_;
  std::list<Load> loads_ GUARDED_BY(mutex_);  // the row of one that is `renewing` is its renewer's alone
};

}  // namespace farside::cache
