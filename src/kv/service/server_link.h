// server_link.h — a process's link to one server: a socket, on which the two tell each other where their memory is and
// whose end says that the other one is gone, and what is reached through it.
//
// Thread safety: every call, from any thread, after join.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "farside/base/error.h"
#include "farside/fabric/fabric.h"

#include "kv/protocol/server_memory.h"
#include "kv/service/link_messages.h"
#include "team/event_loop.h"
#include "team/guest_link.h"
#include "team/secret.h"

namespace farside::kv {

/// The secret of a pool, as kv uses it.
[[nodiscard]] Secret kv_secret(const Secret& pool);

class ServerLink {
 public:
  /// A mailbox at the server, from the client's side.
  struct Mailbox {
    std::uint64_t number;
    std::unique_ptr<RemoteRegion> ring;
    MailboxEnd end;
  };

  /// Connects and shakes hands. Throws Error when nobody answers at `address`, or not with this secret.
  ServerLink(const std::string& address, const Secret& secret, SetupClock::time_point deadline);
  ServerLink(const ServerLink&) = delete;
  ServerLink& operator=(const ServerLink&) = delete;
  /// The server counts as lost afterwards.
  ~ServerLink();

  [[nodiscard]] const Welcome& welcome() const noexcept { return welcome_; }
  /// Makes the server peer `welcome().self` of `fabric`, which outlives this. Throws Error.
  void join(Fabric& fabric, SetupClock::time_point deadline);
  /// Has `loop` keep it, and see to it that the server counts as lost when it is gone.
  static void watch(EventLoop& loop, const std::shared_ptr<ServerLink>& link);
  /// The server is gone, or was; the fabric knows it.
  [[nodiscard]] bool lost() const noexcept { return lost_.load(std::memory_order_acquire); }

  [[nodiscard]] const ServerMemory& memory() const { return *memory_; }

  /// Replies will come into the ring at `offset` of `rings`. Throws Error.
  [[nodiscard]] Mailbox open(const Region& rings, std::uint64_t offset, Waking waking, SetupClock::time_point deadline);
  /// `mailbox` is used no more.
  void close(std::uint64_t mailbox) noexcept;

 private:
  [[nodiscard]] std::string receive(LinkKind wanted, SetupClock::time_point deadline);
  [[nodiscard]] ServerMemory read_head(const RemoteRegion& memory) const;
  [[nodiscard]] Error failure(const std::string& why) const;

  std::mutex mutex_;  // for the next
  GuestLink link_;
  std::size_t late_ = 0;  ///< mailboxes that were asked for, and whose answers nobody waited for long enough
  Welcome welcome_;
  Fabric* fabric_ = nullptr;
  std::unique_ptr<RemoteRegion> memory_region_;
  std::unique_ptr<RemoteRegion> bells_;
  std::optional<ServerMemory> memory_;
  std::atomic<bool> lost_ = false;
};

}  // namespace farside::kv
