// bootstrap.h — how the members of a team find each other before they have a fabric.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "farside/team/team.h"

#include "net/socket.h"

namespace farside::net {
class EventLoop;
}  // namespace farside::net

namespace farside::team {

/// Why a member is no longer one.
enum class Loss : std::uint8_t { died, left, evicted };

/// The changes that a bootstrap learns of by itself. Called on the loop's thread, from construction on.
struct MembershipNotices {
  std::function<void(Rank rank, Loss loss)> lost;
  /// A lost rank has come back, as a new process: `blobs` are its part of the exchanges that were complete by then.
  std::function<void(Rank rank, std::vector<std::string> blobs)> returned;
  /// For good: the team has ended, or took this process for dead.
  std::function<void(const std::string& why)> coordinator_gone;
  /// It is lost for now (true), or was found again.
  std::function<void(bool is_lost)> coordinator_away{};
};

/// How things stood when this process joined.
struct Standing {
  std::uint32_t epoch = 0;      ///< losses and returns before
  std::uint32_t exchanges = 0;  ///< that are complete: it repeats them, and so comes back; 0 while the team forms
  std::set<Rank> lost;          ///< itself included, when it comes back
};

class Bootstrap {
 public:
  virtual ~Bootstrap() = default;
  Bootstrap(const Bootstrap&) = delete;
  Bootstrap& operator=(const Bootstrap&) = delete;

  [[nodiscard]] virtual Rank rank() const = 0;
  [[nodiscard]] virtual Rank size() const = 0;
  [[nodiscard]] virtual std::uint16_t incarnation() const = 0;

  [[nodiscard]] virtual Standing standing() const { return {}; }
  /// The longest until an unresponsive member of another host is lost. 0: no process decides that.
  [[nodiscard]] virtual std::chrono::milliseconds longest_silence() const { return {}; }

  /// Collective. Returns the blob (at most kBlobLimit) of each member, by rank. Throws Error, saying that `tried`
  /// failed, when a member is lost, or when the deadline passes first; after the latter there is no further exchange.
  [[nodiscard]] virtual std::vector<std::string> exchange(const std::string& tried, std::string blob,
                                                          net::SetupClock::time_point deadline) = 0;

  /// The same at all members, for HostFabricOptions::secret. Collective, where all members have to take part.
  [[nodiscard]] virtual std::string fabric_secret(net::SetupClock::time_point /*deadline*/) { return {}; }
  /// For HostFabricOptions::network: how this host is reached from where the members meet. Empty: unknown.
  [[nodiscard]] virtual std::string network() const { return {}; }

  /// Tells all members that this incarnation of `rank` is evicted, where the bootstrap can. Has no effect on another
  /// incarnation: the caller observed this one, and its successor may have joined since.
  virtual void evict(Rank rank, std::uint16_t incarnation) = 0;
  /// Returns whether it can: MembershipNotices::lost follows, unless this process is evicted first.
  [[nodiscard]] virtual bool tells_of_evictions() const { return true; }
  /// Tells all members that this one ends as it should. The last call.
  virtual void leave() = 0;

 protected:
  Bootstrap() = default;
};

/// The bootstrap that the environment names: a coordinator, PMIx, or this process alone.
[[nodiscard]] std::unique_ptr<Bootstrap> bootstrap_from_environment(net::EventLoop& loop, MembershipNotices notices,
                                                                    net::SetupClock::time_point deadline);

/// PMIx, when mpirun or srun launched this program. It reports no losses: such launchers end the whole job.
[[nodiscard]] std::unique_ptr<Bootstrap> make_pmix_bootstrap();

}  // namespace farside::team
