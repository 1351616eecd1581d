// homes.h — which of a partition's two servers a session reads and asks: the primary, until the standby has told this
// process that it serves instead, by a word in this process's own memory (docs/protocols/kv_replication.md). From then
// on that one is the primary, which may be given a standby in its turn.
//
// The rule by which a primary that was only slow serves no client: the word is read *after* the bytes came from the
// primary. If it was 0, the standby did not serve when they were taken.
//
// Between hosts the standby may be unable to write the word. There the session must have a lease as well, at that
// moment: it has asked both a short while ago, by READs; the primary named that standby, which did not serve.
//
// A primary that has lost its standby says that it is alone, and needs neither then: on one host while it says so, and
// between hosts for the time of a lease. It may be given another standby (ShippingJournal::teach), which the session
// joins as soon as the primary is not alone any more.
//
// Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "farside/fabric/fabric.h"

#include "kv/client/search.h"
#include "kv/protocol/lease.h"
#include "kv/protocol/rules.h"
#include "kv/protocol/server_memory.h"
#include "kv/protocol/time_limits.h"

namespace farside::kv {

class Homes {
 public:
  static constexpr std::uint64_t kIsAlone = 1;

  enum class StandbyIs : std::uint8_t {
    joined,   ///< it would tell this process
    joining,  ///< it will; until then the primary is not to be trusted
    gone,     ///< there is none at the moment: the primary has just said that it is alone
    away,     ///< unknown; then the primary is not to be trusted either
  };
  /// A server of the partition.
  struct Primary {
    ServerMemory memory;
    PeerId peer;
    unsigned seat = 0;        ///< of the two; the other one is its standby's
    std::uint64_t epoch = 0;  ///< since which it serves
    /// In its memory: the identity of the standby that may be promoted, or kIsAlone. Needed between hosts.
    std::optional<RemoteWord<ControlWord>> alone{};
  };
  /// As which it is known when it is promoted, and how it tells that.
  struct Standby {
    Primary promoted;
    LocalWord<ControlWord> told;                     ///< in this process's memory; the standby's to write: its epoch
    std::uint64_t epoch_when_asked = 0;              ///< when it was joined, or later; 0: it did not serve
    std::uint64_t identity = 0;                      ///< as its primary names it
    std::optional<RemoteWord<ControlWord>> epoch{};  ///< in its own memory. Needed between hosts
  };
  /// One partition's.
  struct Home {
    Primary primary;
    std::optional<Standby> standby{};  ///< that has been joined
    std::optional<Duration> lease{};   ///< between hosts
    bool is_abandoned = false;
  };
  /// May join another standby than before: then it calls `set_standby`.
  using AskStandby = std::function<StandbyIs(ServerNumber)>;

  /// How long a primary is waited for before the session looks whether it has been replaced; then twice as long, and so
  /// on.
  static constexpr Duration kFirstSlice = time_limits::kFirstSlice;

  Homes(Fabric& fabric, Channel& channel, std::vector<Home> homes, AskStandby how_is_standby,
        const ReplicaRules& rules = {}, Duration first_slice = kFirstSlice);

  /// Another process is the partition's standby, and this process has joined it.
  void set_standby(ServerNumber partition, const Standby& standby);

  [[nodiscard]] ServerNumber partitions() const { return static_cast<ServerNumber>(homes_.size()); }
  /// That of the partition's primary. Changes in `follow` alone, as do the following.
  [[nodiscard]] unsigned seat(ServerNumber partition) const { return homes_[partition].primary.seat; }
  /// How often it has changed.
  [[nodiscard]] std::uint64_t moves(ServerNumber partition) const { return moves_[partition]; }
  [[nodiscard]] std::uint64_t moves() const noexcept { return all_moves_; }
  /// The partition is taken for lost from now on, whatever becomes of it: something was decided because it was.
  void abandon(ServerNumber partition);
  /// The standby has told that it serves.
  [[nodiscard]] bool is_moved(ServerNumber partition) const;
  /// The primary is lost, and the standby will serve.
  [[nodiscard]] bool will_move(ServerNumber partition) const;
  /// It was not reached, by whatever showed that: before a loss is known its socket may still be open.
  [[nodiscard]] bool may_move(ServerNumber partition) const;
  /// Whether what came from the primary while the word was 0 may be taken. Gets a lease where one is needed, or hears
  /// that the standby serves; not so by the deadline, it may not be taken.
  [[nodiscard]] bool is_trusted(ServerNumber partition, Deadline deadline);
  [[nodiscard]] bool is_lost(ServerNumber partition) const {
    return !is_moved(partition) && fabric_.lost(homes_[partition].primary.peer);
  }

  /// Those of the primaries.
  [[nodiscard]] ServerMemories memories() const noexcept { return memories_; }
  /// Makes standbys that serve the primaries of their partitions.
  void follow();

  [[nodiscard]] const ReplicaRules& rules() const noexcept { return rules_; }
  [[nodiscard]] Duration first_slice() const noexcept { return first_slice_; }

 private:
  [[nodiscard]] bool has_standby(ServerNumber partition) const;
  [[nodiscard]] bool has_lease(ServerNumber partition, Deadline deadline);
  /// Returns what the word of one of the partition's servers says. None: that does not answer.
  [[nodiscard]] std::optional<std::uint64_t> ask(RemoteWord<ControlWord> word, ServerNumber partition,
                                                 Deadline deadline);

  Fabric& fabric_;
  Channel& channel_;
  std::vector<Home> homes_;
  const AskStandby how_is_standby_;
  const ReplicaRules rules_;
  const Duration first_slice_;
  std::vector<ServerMemory> memories_;
  std::vector<std::uint64_t> moves_;
  std::uint64_t all_moves_ = 0;
  struct Lease {
    std::optional<Time> until{};
    bool is_alone = false;  ///< the primary said so: until then no standby takes its place
    int doublings = 0;
  };
  std::vector<Lease> leases_;
};

/// Reading from wherever the partitions are. What was found where a partition is not any more is looked for again.
class HomedSource final : public VersionSource {
 public:
  /// `inner` reads `homes.memories()`.
  HomedSource(Fabric& fabric, Homes& homes, VersionSource& inner)
      : fabric_(fabric), homes_(homes), inner_(inner), moves_(homes.moves()) {}

  Outcome find(std::span<Search* const> searches, std::span<const Timestamp> candidates, Deadline deadline) override;

 private:
  /// To the partitions that have moved. False: none has.
  [[nodiscard]] bool follow();
  /// The same, if others have followed before.
  bool catch_up();
  [[nodiscard]] bool is_worth_waiting(std::span<Search* const> searches, Outcome outcome, Deadline deadline);
  [[nodiscard]] bool is_trusted(std::span<Search* const> searches, Deadline deadline);

  Fabric& fabric_;
  Homes& homes_;
  VersionSource& inner_;
  std::uint64_t moves_;  ///< that have been followed
};

}  // namespace farside::kv
