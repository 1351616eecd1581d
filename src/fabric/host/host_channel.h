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

  Outcome fence(Deadline deadline) override;
  Outcome flush(PeerId peer, Deadline deadline) override;
  Outcome flush_all(Deadline deadline) override;
  void local_fence() override;
  Outcome write_signal(RemoteWord<ControlWord> word, std::uint64_t value, Deadline deadline) override;
  Fetched add_signal(RemoteWord<AtomicWord> word, std::uint64_t addend, Deadline deadline) override;

 private:
  void post(const Operation& operation, Completion& completion) override;
  void finish(Completion& completion, Deadline deadline) override;
  Outcome wait_change(const Region& region, std::uint64_t offset, std::uint64_t seen, Deadline deadline,
                      const Awaited& awaited) override;
  [[nodiscard]] std::uint64_t lives_of(std::span<const PeerId> peers) const override;

  /// Carries out whatever brings something back: all but a write.
  static void fetch_direct(const Operation& operation);
  /// Notes that a life of a peer was written to and not flushed.
  void note_write(PeerId peer, const DirectAccess& access);
  /// As flush, after a full fence.
  Outcome settle_writes(PeerId peer, Deadline deadline);

  /// Looks for a time whether the word changes: cheaper than a sleep when the writer is about to write.
  bool changes_while_awake(const LocalWord<ControlWord>& word, std::uint64_t seen, Time start) const;
  Outcome sleep_until_changed(RegionHeader& header, const LocalWord<ControlWord>& word, std::uint64_t seen,
                              Deadline deadline, const Awaited& awaited) const;

  static constexpr Duration kAlone = std::chrono::microseconds(1);  ///< after it the CPU is offered to others
  static constexpr Duration kShortestLook = std::chrono::nanoseconds(250);
  static constexpr Duration kLongestLook = std::chrono::microseconds(50);

  const Fabric& fabric_;
  const PeerTable& peers_;
  std::unique_ptr<UcxChannel> ucx_;
  std::vector<std::uint32_t> unflushed_;  ///< by peer: the first life of it written to since the last flush, or 0
  Duration awake_ = kLongestLook;         ///< of a wait: doubled when waits are short, halved when they are long
};

}  // namespace farside
