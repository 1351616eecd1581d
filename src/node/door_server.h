// door_server.h — serves a Door on a Unix socket, with a few threads that sleep while nobody asks.
//
// All workers wait on one epoll set. Each socket in it is armed for one event at a time (EPOLLONESHOT), so a connection
// has at most one worker, and its requests are answered in order. A client that does not take its answers, sends
// something odd, or is another user's is disconnected; the others do not notice.
//
// Loads may wait for a file system that hangs. Two workers are never busy with one, so that the door stays open: what
// is one load too many waits until another is done or, when none has been for long, is sent around.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "farside/base/fd.h"
#include "farside/fabric/fabric.h"

#include "base/throttled_log.h"
#include "node/door.h"
#include "node/door_packet.h"

namespace farside {

class DoorServer {
 public:
  /// Listens on `path`, which nobody else may use, and serves until destroyed; then `path` is gone.
  DoorServer(Fabric& fabric, Door& door, std::string path);
  ~DoorServer();
  DoorServer(const DoorServer&) = delete;
  DoorServer& operator=(const DoorServer&) = delete;

 private:
  void work(Channel& channel);
  void admit();
  /// A request as it came, and from whom.
  struct Visit {
    int client;
    std::array<std::byte, sizeof(door::Request)> buffer;
    Packet packet;

    [[nodiscard]] std::span<const std::byte> bytes() const {
      return std::span(buffer).first(packet.whole ? packet.bytes : 0);
    }
  };

  void serve(Channel& channel, int client);
  void load(Channel& channel, Visit visit);
  void answer(Channel& channel, Visit& visit);
  void reply(int client, const DoorReply& reply);
  void part(int client);
  [[nodiscard]] const Fd& socket_of(int client);
  bool arm(int socket, int operation, std::uint32_t once);

  Fabric& fabric_;
  Door& door_;
  std::string path_;
  Fd listener_;
  Fd stop_;  // an eventfd that stays readable once it is set: every worker sees it
  Fd events_;
  const std::size_t most_clients_;
  std::mutex mutex_;
  std::map<int, Fd> clients_;  // by descriptor number; guarded by mutex_, but a client's worker alone uses its socket
  int loads_ = 0;              // workers that are busy with one; guarded by mutex_, as are the next two
  Time last_load_{};           // when one last began or ended
  std::deque<Visit> waiting_;
  ThrottledLog log_;
  std::vector<std::thread> workers_;
};

}  // namespace farside
