// standby.h — a partition's second server: it follows the primary's log until the primary is dead, and serves then
// (docs/protocols/kv_replication.md).
//
// It guarantees: what the primary has answered is in the store when this serves; and by then no client takes anything
// from the primary's memory, or from its replies, any more.
//
// Thread safety: one thread at a time, that of the channel and the store.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "kv/replication/epoch_words.h"
#include "kv/replication/shipped_log.h"

namespace farside::kv {

class Standby {
 public:
  /// As the authority on deaths reports for certain: it never tells both servers that the other is dead.
  using IsDead = std::function<bool()>;
  /// After true nothing that the primary posts, or has posted, takes effect in this process's memory.
  using TakeAccess = std::function<bool()>;

  /// `self` as `store` is asked by others. `ring` is new. `disk`, if there is one, was begun anew.
  Standby(Channel& channel, const Region& ring, Store& store, ServerNumber self, ShippedLog::Begins begins,
          EpochWords& words, IsDead is_primary_dead, TakeAccess take_primarys_access, const ReplicaRules& rules = {},
          CopyOnDisk* disk = nullptr)
      : log_(channel, ring, store, begins, rules, disk),
        store_(store),
        disk_(disk),
        self_(self),
        words_(words),
        is_primary_dead_(std::move(is_primary_dead)),
        take_primarys_access_(std::move(take_primarys_access)),
        rules_(rules) {}

  /// Serves since `epoch`, with what was recovered from its disk: nothing is followed. Once, before any step.
  void serve(std::uint64_t epoch);
  /// Follows the primary, and takes its place when it is dead. True if there was anything to do.
  bool step();
  [[nodiscard]] bool serves() const noexcept { return epoch_ != 0; }
  /// Since which it serves: the one after its primary's. 0: it does not.
  [[nodiscard]] std::uint64_t epoch() const noexcept { return epoch_; }
  /// It has all that its primary has, or what came has it.
  [[nodiscard]] bool is_full() const noexcept { return log_.is_full(); }
  /// It could not follow, and will never serve.
  [[nodiscard]] bool has_given_up() const noexcept { return !flaw().empty(); }
  /// Why it has.
  [[nodiscard]] std::string_view flaw() const noexcept { return log_.is_sound() ? flaw_ : log_.flaw(); }

 private:
  [[nodiscard]] bool take_over();
  void commit_what_is_prepared_here_alone();

  ShippedLog log_;
  Store& store_;
  CopyOnDisk* const disk_;
  const ServerNumber self_;
  EpochWords& words_;
  const IsDead is_primary_dead_;
  const TakeAccess take_primarys_access_;
  const ReplicaRules rules_;
  std::uint64_t epoch_ = 0;
  std::string_view flaw_;
};

}  // namespace farside::kv
