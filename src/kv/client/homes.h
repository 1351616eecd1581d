// homes.h — which of a partition's two servers a session reads and asks: the primary, until the standby has told this
// process that it serves instead, by a word in this process's own memory (docs/protocols/kv_replication.md).
//
// The rule by which a primary that was only slow serves no client: the word is read *after* the bytes came from the
// primary. If it was 0, the standby did not serve when they were taken.
//
// Between hosts the standby may be unable to write the word. There the session must have a lease as well, at that
// moment: it has asked the standby a short while ago, by a READ, and it did not serve.
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
  enum class StandbyIs : std::uint8_t {
    joined,   ///< it would tell this process
    joining,  ///< it will; until then the primary is not to be trusted
    gone,     ///< there is none at the moment: the primary has just said that it is alone
    away,     ///< unknown; then the primary is not to be trusted either
  };
  /// The words that are READ to check a lease.
  struct LeaseSource {
    RemoteWord<ControlWord> epoch;  ///< in the standby's memory
    RemoteWord<ControlWord> alone;  ///< in the primary's: kIsAlone while it has no standby that may be promoted
    Duration lease = kLease;
  };
  /// One partition's.
  struct Home {
    ServerMemory primary;
    ServerMemory standby;
    PeerId primary_peer;
    std::uint64_t epoch_when_asked = 0;         ///< when it was joined, or later
    LocalWord<ControlWord> epoch;               ///< in this process's memory; the standby's to write
    std::optional<LeaseSource> lease_source{};  ///< between hosts
  };
  /// May join another standby than before: then it calls `set_standby`.
  using AskStandby = std::function<StandbyIs(ServerNumber)>;

  static constexpr std::uint64_t kIsAlone = 1;

  /// How long a primary is waited for before the session looks whether it has been replaced; then twice as long, and so
  /// on.
  static constexpr Duration kFirstSlice = time_limits::kFirstSlice;

  Homes(Fabric& fabric, Channel& channel, std::vector<Home> homes, AskStandby how_is_standby,
        const ReplicaRules& rules = {}, Duration first_slice = kFirstSlice);

  /// Another process is the partition's standby, and this process has joined it.
  void set_standby(ServerNumber partition, const ServerMemory& memory, std::uint64_t epoch_when_joined,
                   std::optional<RemoteWord<ControlWord>> epoch);

  [[nodiscard]] ServerNumber partitions() const { return static_cast<ServerNumber>(homes_.size()); }
  [[nodiscard]] bool is_moved(ServerNumber partition) const {
    const Home& home = homes_[partition];
    return home.epoch_when_asked != 0 || home.epoch.load() != 0;
  }
  /// The same, and it is known where to: a standby may have told this process before it heard that it has joined it.
  [[nodiscard]] bool has_moved(ServerNumber partition) const;
  /// The primary is lost, and the standby will serve.
  [[nodiscard]] bool will_move(ServerNumber partition) const;
  /// It was not reached, by whatever showed that: before a loss is known its socket may still be open.
  [[nodiscard]] bool may_move(ServerNumber partition) const;
  /// Whether what came from the primary while the word was 0 may be taken. Gets a lease where one is needed, or hears
  /// that the standby serves; not so by the deadline, it may not be taken.
  [[nodiscard]] bool is_trusted(ServerNumber partition, Deadline deadline);
  [[nodiscard]] bool is_lost(ServerNumber partition) const {
    return !is_moved(partition) && fabric_.lost(homes_[partition].primary_peer);
  }

  /// The partitions' memories when `follow` was called last.
  [[nodiscard]] ServerMemories memories() const noexcept { return memories_; }
  /// True if any has moved since.
  bool follow();

  [[nodiscard]] const ReplicaRules& rules() const noexcept { return rules_; }
  [[nodiscard]] Duration first_slice() const noexcept { return first_slice_; }

 private:
  [[nodiscard]] bool has_standby(ServerNumber partition) const;
  [[nodiscard]] bool has_lease(ServerNumber partition, Deadline deadline);
  /// Returns the epoch that the standby says. None: it does not answer.
  [[nodiscard]] std::optional<std::uint64_t> ask_epoch(ServerNumber partition, Deadline deadline);
  /// Whether the primary says that it is alone.
  [[nodiscard]] bool ask_whether_alone(ServerNumber partition, Deadline deadline);

  Fabric& fabric_;
  Channel& channel_;
  std::vector<Home> homes_;
  const AskStandby how_is_standby_;
  const ReplicaRules rules_;
  const Duration first_slice_;
  std::vector<ServerMemory> memories_;
  std::vector<bool> followed_;
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
  HomedSource(Fabric& fabric, Homes& homes, VersionSource& inner) : fabric_(fabric), homes_(homes), inner_(inner) {}

  Outcome find(std::span<Search* const> searches, std::span<const Timestamp> candidates, Deadline deadline) override;

 private:
  /// To the partitions that have moved. False: none has.
  [[nodiscard]] bool follow();
  [[nodiscard]] bool is_worth_waiting(std::span<Search* const> searches, Outcome outcome, Deadline deadline);
  [[nodiscard]] bool is_trusted(std::span<Search* const> searches, Deadline deadline);

  Fabric& fabric_;
  Homes& homes_;
  VersionSource& inner_;
};

}  // namespace farside::kv
