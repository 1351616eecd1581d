// server_link.h — a process's link to one server: a socket, on which the two tell each other where their memory is and
// whose end says that the other one is gone, and what is reached through it.
//
// Thread safety: every call, from any thread, after join; ship and ship_again while no other call runs.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "farside/fabric/fabric.h"

#include "base/assert.h"
#include "base/mutex.h"
#include "kv/client/homes.h"
#include "kv/protocol/server_memory.h"
#include "kv/service/link_messages.h"
#include "net/event_loop.h"
#include "net/secret.h"
#include "service/service_link.h"

namespace farside::kv {

/// The secret of a pool, as kv uses it.
[[nodiscard]] net::Secret kv_secret(const net::Secret& pool);

/// The number of what a process is as a server: not that of another process, nor of the same one when it has begun
/// anew, and not Homes::kIsAlone.
[[nodiscard]] std::uint64_t identity_of(const Welcome& welcome);

class ServerLink {
 public:
  /// A mailbox at the server, from the client's side.
  struct Mailbox {
    std::uint64_t number;
    std::unique_ptr<RemoteRegion> ring;
    MailboxEnd end;
  };

  /// Connects and shakes hands. Throws Error when no server answers at `address`, or not with this secret.
  ServerLink(const std::string& address, const net::Secret& secret, net::SetupClock::time_point deadline);
  ServerLink(const ServerLink&) = delete;
  ServerLink& operator=(const ServerLink&) = delete;
  /// The server counts as lost afterwards.
  ~ServerLink();

  [[nodiscard]] const Welcome& welcome() const noexcept { return welcome_; }
  /// As which it is known to this process's fabric: by its partition, those in second seats after all others.
  [[nodiscard]] PeerId peer() const {
    return static_cast<PeerId>(welcome_.seat * welcome_.servers.size()) + welcome_.self;
  }
  /// Makes the server that peer of `fabric`, which outlives this, and READs the head of its memory by `channel`. If
  /// `is_told`, a standby will tell that it serves. Throws Error.
  void join(Fabric& fabric, Channel& channel, bool is_told, net::SetupClock::time_point deadline);
  /// Not 0: a standby served already when it was joined.
  [[nodiscard]] std::uint64_t epoch_when_joined() const noexcept { return epoch_when_joined_; }
  /// Requires: it was joined to be told. Its word for this process.
  [[nodiscard]] LocalWord<ControlWord> told() const { return told_->word<ControlWord>(0); }
  /// Since when it serves, as far as this process knows; none: it does not.
  [[nodiscard]] std::optional<std::uint64_t> serves_since() const;
  /// To a standby, from its primary of that incarnation: where changes go. Throws Error.
  [[nodiscard]] std::unique_ptr<RemoteRegion> ship(std::uint16_t incarnation, net::SetupClock::time_point deadline);
  /// The same, after the fabric has lost the standby: what was attached leads nowhere any more. The one that is in its
  /// place now has said `now`. Throws Error when that is another process.
  [[nodiscard]] std::unique_ptr<RemoteRegion> ship_again(const Welcome& now);
  /// Ends the connection: a standby learns that it is not shipped to any more.
  void hang_up() const noexcept { constant_link().hang_up(); }
  /// Nothing is shipped any more, and no client served.
  void leave() noexcept;
  [[nodiscard]] RemoteWord<AtomicWord> bell() const { return bells_->word<AtomicWord>(kBell); }
  /// A primary's word: which standby may be promoted (`identity`); kIsAlone: none.
  [[nodiscard]] RemoteWord<ControlWord> alone() const { return bells_->word<ControlWord>(kAlone); }
  [[nodiscard]] std::uint64_t identity() const { return identity_of(welcome_); }
  /// That word; it has a second to answer.
  [[nodiscard]] Result<std::uint64_t> ask_alone(Channel& channel) const;
  /// A standby's word: its epoch. Not 0 when it serves, or is about to.
  [[nodiscard]] RemoteWord<ControlWord> epoch() const { return bells_->word<ControlWord>(kEpoch); }
  /// Whether the standby says that it will not serve: it has given up, or no primary has begun to teach it. READs its
  /// word; false also when it does not answer.
  [[nodiscard]] bool ask_whether_gave_up(Channel& channel);
  /// The last answer to that. Never waits.
  [[nodiscard]] bool gave_up() const noexcept { return gave_up_.load(std::memory_order_acquire); }

  /// The layout of the region of bells.
  static constexpr std::uint64_t kBell = 0;
  static constexpr std::uint64_t kAlone = 64;    ///< ControlWord
  static constexpr std::uint64_t kEpoch = 128;   ///< ControlWord
  static constexpr std::uint64_t kGaveUp = 192;  ///< ControlWord; 0: it follows, or serves
  static constexpr std::uint64_t kBellsBytes = 256;
  static constexpr std::uint64_t kIsAlone = Homes::kIsAlone;

  /// Has `loop` keep it, and see to it that the server counts as lost when it is gone.
  static void watch(net::EventLoop& loop, const std::shared_ptr<ServerLink>& link);
  /// Has the fabric take it for lost: the process that was joined, and none that has its number since.
  void mark_lost() const { fabric_->mark_lost(peer(), life_.load(std::memory_order_acquire)); }
  /// The server is gone, or was; the fabric knows it.
  [[nodiscard]] bool lost() const noexcept { return lost_.load(std::memory_order_acquire); }

  [[nodiscard]] const ServerMemory& memory() const {
    assert_that(memory_.has_value(), "a link is joined before the server's memory is used");
    return *memory_;
  }

  /// Replies will come into the ring at `offset` of `rings`. Throws Error.
  [[nodiscard]] Mailbox open(const Region& rings, std::uint64_t offset, Waking waking,
                             net::SetupClock::time_point deadline);
  /// `mailbox` is used no more.
  void close(std::uint64_t mailbox) noexcept;

 private:
  /// For what, failure and watch alone: they read members that never change.
  [[nodiscard]] const service::ServiceLink& constant_link() const NO_THREAD_SAFETY_ANALYSIS { return link_; }
  void try_to_say(const std::string& message) noexcept;
  [[nodiscard]] ServerMemory read_head(Channel& channel, net::SetupClock::time_point deadline) const;

  Mutex mutex_;
  service::ServiceLink link_ GUARDED_BY(mutex_);
  /// Mailboxes that were asked for, and whose answers were not awaited long enough.
  std::size_t late_ GUARDED_BY(mutex_) = 0;
  Welcome welcome_;
  Fabric* fabric_ = nullptr;
  std::unique_ptr<RemoteRegion> memory_region_;
  std::unique_ptr<RemoteRegion> bells_;
  std::unique_ptr<Region> told_;
  std::string ring_;  ///< the handle of where changes go
  std::optional<ServerMemory> memory_;
  std::uint64_t epoch_when_joined_ = 0;
  std::atomic<PeerLife> life_ = 0;  ///< of the peer, as this was joined
  std::atomic<bool> lost_ = false;
  std::atomic<bool> gave_up_ = false;
};

}  // namespace farside::kv
