// door_server.h — serves a Door on a Unix socket, with a few threads that sleep while nobody asks.
//
// All workers wait on one epoll set. Each socket in it is armed for one event at a time (EPOLLONESHOT), so a connection
// has at most one worker, and its requests are answered in order. A client that does not take its answers, sends
// something odd, or is another user's is disconnected; the others do not notice.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "farside/base/fd.h"
#include "farside/fabric/fabric.h"

#include "node/door.h"

namespace farside {

class DoorServer {
 public:
  static constexpr std::size_t kMostClients = 4096;

  /// Listens on `path`, which nobody else may use, and serves until destroyed; then `path` is gone.
  DoorServer(Fabric& fabric, Door& door, std::string path);
  ~DoorServer();
  DoorServer(const DoorServer&) = delete;
  DoorServer& operator=(const DoorServer&) = delete;

 private:
  void work(Channel& channel);
  void admit();
  void serve(Channel& channel, int client);
  bool answer_one(Channel& channel, const Fd& client);
  bool arm(int socket, int operation, std::uint32_t once);
  void complain(const std::string& about);

  Fabric& fabric_;
  Door& door_;
  std::string path_;
  Fd listener_;
  Fd stop_;  // an eventfd that stays readable once it is set: every worker sees it
  Fd events_;
  std::mutex mutex_;
  std::map<int, Fd> clients_;  // by descriptor number; guarded by mutex_, but a client's worker alone uses its socket
  std::atomic<std::int64_t> quiet_until_ns_ = 0;
  std::vector<std::thread> workers_;
};

}  // namespace farside
