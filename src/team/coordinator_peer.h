// coordinator_peer.h — a connection to the coordinator: a stranger's, until the process at its other end has proved to
// know the secret and has a seat.
//
// Thread safety: for the thread of its loop.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "farside/team/team.h"

#include "net/connection.h"
#include "net/introduction.h"

namespace farside::team {

/// The fields of a frame, which several peers may get.
using SharedFields = std::shared_ptr<const std::string>;

/// The frames that carry exchange `number`: as many blobs in each as come to some kilobytes.
[[nodiscard]] std::vector<SharedFields> parts_of(std::uint32_t number, const std::vector<std::string>& blobs);

class CoordinatorPeer {
 public:
  CoordinatorPeer(net::EventLoop& loop, Fd socket, std::function<void()> on_ready)
      : connection(loop, std::move(socket), std::move(on_ready)) {
    connection.on_taken([this] { send_what_fits(); });
  }
  CoordinatorPeer(const CoordinatorPeer&) = delete;
  CoordinatorPeer& operator=(const CoordinatorPeer&) = delete;

  /// Requires: it has a session. The frame is sealed, with this peer's key, when it has taken what was sent before;
  /// until then all peers share the fields.
  void send(net::FrameKind kind, SharedFields fields);
  /// Before it is sent away.
  void send_last(net::FrameKind kind, const std::string& reason);
  void send_beat() { connection.send(session->seal(net::FrameKind::beat)); }

  [[nodiscard]] bool is_stranger() const { return !session || keeps_seat; }
  /// Frames that it has not taken yet.
  [[nodiscard]] std::size_t waiting() const { return outbox_.size(); }

  net::Connection connection;
  net::SetupClock::time_point came = net::SetupClock::now();
  unsigned beats_since_heard = 0;
  net::Introduction introduction;
  std::optional<net::Session> session;
  Rank rank = 0;
  bool keeps_seat = false;  ///< it claims the seat that it had; its frame that says which is awaited
  /// It has kept its seat by this connection, and has not said anything since: perhaps it gave up waiting for the
  /// answer, and claims it by another one.
  bool is_unconfirmed = false;
  bool copies_log = false;   ///< no member
  bool is_deferred = false;  ///< it claims a seat that may be another process's; that is found out

 private:
  struct Unsealed {
    net::FrameKind kind;
    SharedFields fields;
  };
  void send_what_fits();

  std::deque<Unsealed> outbox_;
};

}  // namespace farside::team
