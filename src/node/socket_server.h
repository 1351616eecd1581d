// socket_server.h — serves requests on a Unix socket, with a few threads that sleep while no request comes.
//
// All workers wait on one epoll set. Each socket in it is armed for one event at a time (EPOLLONESHOT), so a connection
// has at most one worker, and its requests are answered in order. A client that does not take its answers, sends
// something odd, or is another user's is disconnected; the others do not notice.
//
// Loads may wait for a file system that hangs. Two workers are never busy with one, so that other requests are
// answered. One more thread, the keeper, answers what the loads do not answer in time (load_queue.h), and renews their
// leases.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "farside/base/fd.h"
#include "farside/fabric/fabric.h"

#include "base/backoff.h"
#include "base/mutex.h"
#include "base/throttled_log.h"
#include "net/time_limits.h"
#include "node/load_queue.h"
#include "node/request_handler.h"

namespace farside::node {

class SocketServer {
 public:
  /// Listens on `path`, which no other user may use, and serves until destroyed; then `path` is gone.
  SocketServer(Fabric& fabric, RequestHandler& handler, std::string path);
  ~SocketServer();
  SocketServer(const SocketServer&) = delete;
  SocketServer& operator=(const SocketServer&) = delete;

 private:
  void work(Channel& channel);
  void keep(Channel& channel);
  void admit();
  /// Has nothing accepted for a while.
  void rest() REQUIRES(mutex_);
  void serve(Channel& channel, int client);
  void load(Channel& channel, Visit visit, const cache::BlockKey& key);
  /// Nothing when the client is to be parted with.
  std::optional<ReplyPacket> answer(Channel& channel, Visit& visit);
  void give(int client, const std::optional<ReplyPacket>& answer);
  void part(int client);
  [[nodiscard]] const Fd& socket_of(int client);
  bool arm(int socket, int operation, std::uint32_t once);

  Fabric& fabric_;
  RequestHandler& handler_;
  std::string path_;
  Fd listener_;
  Fd stop_;   // an eventfd that stays readable once it is set: every worker sees it
  Fd pause_;  // a timer; readable when the listener is to be listened at again
  Fd events_;
  const std::size_t most_clients_;
  Mutex mutex_;
  Backoff<std::chrono::milliseconds> rests_ GUARDED_BY(mutex_){net::time_limits::kFirstRest,
                                                               net::time_limits::kMaxRest};
  std::map<int, Fd> clients_ GUARDED_BY(mutex_);  // by descriptor number; a client's worker alone uses its socket
  LoadQueue loads_;
  ThrottledLog log_;
  std::vector<std::thread> workers_;
  std::thread keeper_;
};

}  // namespace farside::node
