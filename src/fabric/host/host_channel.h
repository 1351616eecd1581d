// host_channel.h — a thread's way to its peers: plain memory accesses where a region is mapped, UCX elsewhere.
#pragma once

#include <memory>
#include <vector>

#include "farside/fabric/channel.h"
#include "farside/fabric/fabric.h"

#include "fabric/host/host_region.h"
#include "fabric/host/peer_table.h"
#include "fabric/ucx/channel.h"

namespace farside {

class HostChannel final : public Channel {
 public:
  /// `ucx` may be null: then every peer is on this host.
  HostChannel(const Fabric& fabric, const PeerTable& peers, std::unique_ptr<UcxChannel> ucx)
      : fabric_(fabric), peers_(peers), ucx_(std::move(ucx)) {}

  Outcome fence(PeerId peer, Deadline deadline) override;
  Outcome flush(PeerId peer, Deadline deadline) override;
  Outcome flush_all(Deadline deadline) override;
  Outcome flush_each(std::span<const PeerId> peers, Deadline deadline) override;
  void local_fence() override;
  Outcome write_signals(std::span<const RemoteWord<ControlWord>> words, std::uint64_t value,
                        Deadline deadline) override;
  Result<std::uint64_t> add_signal(RemoteWord<AtomicWord> word, std::uint64_t addend, Deadline deadline) override;

 private:
  void post(const Operation& operation, Completion& completion) override;
  void finish(Completion& completion, Deadline deadline) override;
  Outcome wait_change(const Region& region, std::uint64_t offset, std::uint64_t seen, Deadline deadline,
                      const Awaited& awaited) override;
  [[nodiscard]] std::uint64_t lives_of(std::span<const PeerId> peers) const override;

  /// Carries out whatever brings something back: all but a write.
  static void fetch_direct(const Operation& operation);
  /// WRITEs to mapped memory of a peer since the last flush. Those to an earlier life of it are lost with that.
  struct Unflushed {
    std::uint32_t word = 0;  ///< of the peer table: the life of the peer that was written to, or 0
    bool lost = false;       ///< those to an earlier one
    bool fence_told = false;
    bool signal_told = false;
  };

  /// Notes that a life of a peer was written to and not flushed. Requires: that is not noted.
  [[gnu::noinline]] void note_first_write(PeerId peer, const DirectAccess& access);
  [[nodiscard]] bool has_written(PeerId peer) const {
    return peer < unflushed_.size() && (unflushed_[peer].word != 0 || unflushed_[peer].lost);
  }
  [[nodiscard]] bool lost_writes(PeerId peer) const;
  /// Returns peer_lost, once until the next flush, when WRITEs to the peer are lost.
  Outcome pass_writes(PeerId peer, bool Unflushed::*told);
  /// A signal was stored: what came before it is visible.
  void note_signal(PeerId peer);
  /// As flush, after a full fence.
  Outcome settle_writes(PeerId peer, Deadline deadline);

  /// write_signals, to targets that UCX reaches.
  Outcome signal_by_network(std::span<const RemoteWord<ControlWord>> words, std::uint64_t value, Deadline deadline);

  /// Looks some times whether the word changes. A caller that waits for a running thread sees it so within some hundred
  /// nanoseconds; where the writer needs this core, looking only keeps it waiting.
  bool changes_while_looking(const LocalWord<ControlWord>& word, std::uint64_t seen);
  /// Offers the CPU to others between two looks, for a time: cheaper than a sleep when the writer is about to write.
  bool changes_while_awake(const LocalWord<ControlWord>& word, std::uint64_t seen, Time start) const;
  Outcome sleep_until_changed(RegionHeader& header, const LocalWord<ControlWord>& word, std::uint64_t seen,
                              Deadline deadline, const Awaited& awaited) const;

  static constexpr unsigned kMaxLooks = 64;  ///< about 1 us
  static constexpr unsigned kMinLooks = 4;
  static constexpr unsigned kWaitsToATry = 16;
  static constexpr unsigned kMaxYields = 127;  ///< about 50 us when no other thread wants the core
  static constexpr Duration kShortWait = std::chrono::microseconds(200);

  const Fabric& fabric_;
  const PeerTable& peers_;
  std::unique_ptr<UcxChannel> ucx_;
  std::vector<Unflushed> unflushed_;  ///< by peer
  bool looking_pays_ = true;          ///< it did, in the last wait
  unsigned waits_ = 0;                ///< in each kWaitsToATry-th it is tried whether looking pays again
  unsigned yields_ = kMaxYields;      ///< in a wait: doubled when waits are short, halved when they are long
};

}  // namespace farside
