// service_client.h — a process's connections to all servers, which its sessions (session_links.h) share.
//
// Thread safety: every call from any thread.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "farside/fabric/fabric.h"
#include "farside/kv/client.h"

#include "base/backoff.h"
#include "base/mutex.h"
#include "kv/protocol/time_limits.h"
#include "kv/service/session_links.h"
#include "net/event_loop.h"
#include "service/addresses.h"

namespace farside::kv {

class ServiceClient {
 public:
  /// `entries`: where servers may be reached; the first that answers names the others. Throws Error when none does
  /// within `limit`.
  ServiceClient(std::span<const std::string> entries, const net::Secret& pool, std::chrono::milliseconds limit);
  ~ServiceClient();
  ServiceClient(const ServiceClient&) = delete;
  ServiceClient& operator=(const ServiceClient&) = delete;

  [[nodiscard]] std::chrono::milliseconds longest_silence() const noexcept { return welcome_.longest_silence; }
  [[nodiscard]] ServerNumber servers() const noexcept { return static_cast<ServerNumber>(welcome_.servers.size()); }

  /// As Client::open_session; may wait for `limit`.
  [[nodiscard]] std::unique_ptr<Session> open_session(const SessionOptions& options, std::chrono::milliseconds limit);
  /// As Client::copies; may wait for `limit`.
  [[nodiscard]] std::vector<std::uint32_t> copies(std::chrono::milliseconds limit);

 private:
  /// For a session, as PoolLinks::renew: tries with exponential backoff.
  [[nodiscard]] RenewedLink renew_for_session(ServerNumber partition, unsigned seat, std::uint64_t identity);
  /// By partition, those of these keys; none is needed where there are no keys.
  [[nodiscard]] std::vector<bool> needed_by(const std::vector<std::string>& keys) const;
  /// Those that are needed; where none is, all that answer by `until`. Throws Error when one that is needed does not,
  /// or none at all. While a standby takes over it is waited for until `deadline`.
  [[nodiscard]] PoolLinks reach_all(std::vector<bool> needed, net::SetupClock::time_point until,
                                    net::SetupClock::time_point deadline);
  /// A partition's servers, as this process is linked to them.
  struct Linked {
    std::array<std::shared_ptr<ServerLink>, 2> seats;
    std::unique_ptr<Channel> channel;  ///< for what is READ of them between sessions; made when it is needed
    /// Attempts to renew a session, by seat.
    struct Attempts {
      net::SetupClock::time_point next{};
      std::optional<net::SetupClock::time_point> met{};  ///< since when the last one has been linked to
      Backoff<net::SetupClock::duration> pauses{time_limits::kFirstBetweenRenewals, time_limits::kBetweenOpenings};
    };
    std::array<Attempts, 2> attempts{};
  };
  /// `linked` is the partition's; no other thread uses it meanwhile.
  [[nodiscard]] PartitionLinks reach(Linked& linked, ServerNumber partition, net::SetupClock::time_point until,
                                     net::SetupClock::time_point deadline);
  /// The links by which a session can use the partition. None: not yet, or not any more. Forgets a link to a process
  /// that is not the primary's standby.
  [[nodiscard]] std::optional<PartitionLinks> usable(Linked& linked) const;
  /// The server in that seat, as its primary, names this process as its standby.
  [[nodiscard]] bool is_named(const Linked& linked, unsigned primary, std::uint64_t identity) const;
  /// Since when the server serves; none: it does not, or is lost.
  [[nodiscard]] std::optional<std::uint64_t> serves_since(const ServerLink* server, Channel& channel) const;
  [[nodiscard]] bool have_standbys() const { return !welcome_.standbys.empty(); }
  [[nodiscard]] bool is_between_hosts() const { return welcome_.hello.remote_peers; }
  [[nodiscard]] net::SetupClock::time_point end_of_try(net::SetupClock::time_point deadline) const;
  /// Connects again when it was lost.
  void renew(Linked& linked, ServerNumber partition, unsigned seat, net::SetupClock::time_point answer_by,
             net::SetupClock::time_point deadline);
  [[nodiscard]] std::shared_ptr<ServerLink> connect(const std::string& address, ServerNumber partition, unsigned seat,
                                                    net::SetupClock::time_point deadline);

  const net::Secret secret_;
  std::unique_ptr<Fabric> fabric_;
  Welcome welcome_;  ///< of whichever answered first
  // Since then.
  std::optional<service::KnownAddresses> servers_;
  std::optional<service::KnownAddresses> standbys_;
  net::EventLoop loop_;
  Mutex mutex_;
  std::vector<Linked> linked_ GUARDED_BY(mutex_);  ///< by partition
};

}  // namespace farside::kv
