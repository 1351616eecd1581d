// resp_worker.h — one thread of a server of the Redis protocol: its clients, their buffers, and its session.
//
// A client is disconnected, counted and logged when it is owed more than it may be, takes nothing of its replies for
// long, or takes most of this thread's share of the memory for buffers when that is used up. The others do not notice.
// When another pool is in the place of the one before (StoreReplaced) all are: what they have read of the old one, or
// queued for it, must not meet the new one.
//
// When a call of its session takes long (overseer.h) the thread that waits is relieved: it keeps the session, and the
// clients for which it still asks, to itself until the call ends. Another thread with another session goes on for the
// others.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "farside/base/fd.h"
#include "farside/kv/session.h"

#include "base/mutex.h"
#include "base/throttled_log.h"
#include "kv/resp/client.h"
#include "kv/resp/overseer.h"
#include "kv/resp/watched_session.h"
#include "net/connection.h"
#include "net/event_loop.h"

namespace farside::kv {

class RespWorker {
 public:
  /// For two servers that stop at once: of each one may wait for a get, another for a put. What they wait for is not
  /// asked for meanwhile (SilentServers).
  static constexpr std::size_t kSpareLanes = 4;

  /// `buffer_bytes` is what its clients' buffers take together. `status` and `overseer` outlive it.
  RespWorker(RespStatus& status, Overseer& overseer, std::unique_ptr<Session> session, std::size_t buffer_bytes);
  ~RespWorker();
  RespWorker(const RespWorker&) = delete;
  RespWorker& operator=(const RespWorker&) = delete;

  /// Thread safety: any thread.
  void admit(Fd socket, std::uint64_t id, std::string address);

  // For the overseer.

  [[nodiscard]] bool is_in_call() const { return lane_->session.is_busy(); }
  /// How many there have been, or fewer.
  [[nodiscard]] std::uint64_t calls() const { return lane_->session.calls(); }
  /// How many sessions it has besides that of the loop's thread. kSpareLanes are enough.
  [[nodiscard]] std::size_t further_sessions();
  /// For a thread that takes another one's place.
  void add(std::unique_ptr<Session> session);
  /// A call that began by `since` and has not ended is stuck: what it needs is suspected, of which `places` knows where
  /// it is.
  void relieve_if_stuck(std::chrono::steady_clock::time_point since, const Session& places);
  /// More is known of servers that may not answer.
  void look_again();

 private:
  using Clock = std::chrono::steady_clock;

  struct Client {
    Client(RespWorker& worker, Fd socket, std::uint64_t id, const std::string& address)
        : status(worker.status_),
          obeying(worker.lane_->session, status, id, address),
          connection(worker.loop_, std::move(socket), [&worker, id] { worker.ready_.push_back(id); }) {}
    ~Client() { --status.clients; }
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    RespStatus& status;
    RespClient obeying;
    net::Connection connection;
    std::string replies{};
    std::size_t counted_bytes = 0;           // of this client, in the sum of all
    std::uint64_t taken_bytes = 0;           // of its replies, when it last was seen to take some
    Clock::time_point taken = Clock::now();  // and when that was
    bool has_left = false;
    bool is_paused = false;
    Clock::time_point paused_until{};
    bool is_waiting = false;   // in waiting_: for its write
    bool is_held_up = false;   // and paused till more is known
    bool is_away = false;      // with a thread that was relieved: nothing else of it may be touched
    bool is_unwanted = false;  // it goes when it is back
  };

  /// A thread's.
  struct Lane {
    Lane(RespStatus& status, Overseer& overseer, std::unique_ptr<Session> its);

    WatchedSession session;
    std::vector<Client*> clients{};  // for which it asks; null: it is given back
    std::vector<IndependentPut> puts{};
    std::vector<std::size_t> ended{};  // puts; guarded by lanes_mutex_
    std::thread relieved{};
  };

  /// Null: it was disconnected.
  [[nodiscard]] Client* find(std::uint64_t id);
  void serve_ready();
  void serve(Lane& lane);
  void receive(Client& client);
  void go_on(Lane& lane, Client& client);
  void write_for(Lane& lane, std::span<const std::uint64_t> ids);
  void end_write(Lane& lane, std::size_t put);
  [[nodiscard]] static bool has_ended(const Lane& lane, const IndependentPut& put);
  [[nodiscard]] bool is_away(const Lane& lane) const REQUIRES(lanes_mutex_);
  /// To the loop's thread: the clients whose puts have ended while others' have not.
  void give_back(Lane& lane) REQUIRES(lanes_mutex_);
  void take_back(Client& client, PutOutcome outcome);
  static PutOutcome write_alone(Session& session, std::span<const Write> writes);
  [[nodiscard]] bool relieve();
  void suspect(const WatchedSession::Needs& needs, const Session& places);
  static void set_away(const Lane& lane, bool is_away);
  void take_back(Lane& lane, bool is_replaced);
  void stopped_at(Client& client);
  void hold_up(Client& client);
  void send_replies(Client& client);
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
  Overseer& overseer_;
  std::unique_ptr<Lane> lane_;  // of the loop's thread
  Mutex lanes_mutex_;
  std::vector<std::unique_ptr<Lane>> spare_ GUARDED_BY(lanes_mutex_);
  std::vector<std::unique_ptr<Lane>> away_ GUARDED_BY(lanes_mutex_);
  ThrottledLog log_;
  std::size_t buffered_bytes_ = 0;      // of all clients
  std::deque<std::uint64_t> ready_;     // clients that have sent something, or left
  std::deque<std::uint64_t> written_;   // whose writes have ended, or that were held up
  std::vector<std::uint64_t> waiting_;  // for something to be written
  net::EventLoop loop_;
  std::unordered_map<std::uint64_t, Client> clients_;
};

}  // namespace farside::kv
