// resp_worker.h — one thread of a server of the Redis protocol: its clients, their buffers, and its session.
//
// A client is disconnected, counted and logged when it is owed more than it may be, takes nothing of its replies for
// long, or takes most of this thread's share of the memory for buffers when that is used up. The others do not notice.
// When another pool is in the place of the one before (StoreReplaced) all are: what they have read of the old one, or
// queued for it, must not meet the new one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "farside/base/fd.h"
#include "farside/kv/session.h"

#include "base/throttled_log.h"
#include "kv/resp/client.h"
#include "team/connection.h"
#include "team/event_loop.h"

namespace farside::kv {

class RespWorker {
 public:
  /// `buffer_bytes` is what its clients' buffers take together. `status` outlives it.
  RespWorker(RespStatus& status, std::unique_ptr<Session> session, std::size_t buffer_bytes);
  ~RespWorker() { loop_.stop(); }
  RespWorker(const RespWorker&) = delete;
  RespWorker& operator=(const RespWorker&) = delete;

  /// Thread safety: any thread.
  void admit(Fd socket, std::uint64_t id, std::string address);

 private:
  using Clock = std::chrono::steady_clock;

  struct Client {
    Client(RespWorker& worker, Fd socket, std::uint64_t id, const std::string& address)
        : status(worker.status_),
          obeying(*worker.session_, status, id, address),
          connection(worker.loop_, std::move(socket), [&worker, id] { worker.ready_.push_back(id); }) {}
    ~Client() { --status.clients; }
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    RespStatus& status;
    RespClient obeying;
    Connection connection;
    std::string replies{};
    std::size_t counted_bytes = 0;           // of this client, in the sum of all
    std::uint64_t taken_bytes = 0;           // of its replies, when it last was seen to take some
    Clock::time_point taken = Clock::now();  // and when that was
    bool has_left = false;
    bool is_paused = false;
    Clock::time_point paused_until{};
  };

  /// Null: it was disconnected.
  [[nodiscard]] Client* find(std::uint64_t id);
  void serve_ready();
  void serve();
  void receive(Client& client);
  void go_on(std::uint64_t id, Client& client);
  void write_for(std::span<const std::uint64_t> ids);
  PutOutcome write_alone(std::span<const Write> writes);
  void answer(std::uint64_t id, Client& client);
  void count_buffers(Client& client);
  void make_room();
  void pause(Client& client);
  void resume(std::uint64_t id, Client& client);
  void look_after_clients();
  void disconnect(std::uint64_t id, Disconnected why);
  void remove(std::uint64_t id);
  void disconnect_all();

  RespStatus& status_;
  const std::size_t buffer_limit_;
  std::unique_ptr<Session> session_;
  ThrottledLog log_;
  std::size_t buffered_bytes_ = 0;      // of all clients
  std::vector<std::uint64_t> ready_;    // clients that have sent something, or left
  std::vector<std::uint64_t> waiting_;  // for something to be written
  std::vector<IndependentPut> puts_;
  EventLoop loop_;
  std::unordered_map<std::uint64_t, Client> clients_;
};

}  // namespace farside::kv
