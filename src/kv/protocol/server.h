// server.h — a server at work: takes requests out of its clients' mailboxes, answers them, and reclaims what is due.
//
// Thread safety: one thread at a time, that of the channel and of the store.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "kv/protocol/request_handler.h"
#include "kv/protocol/served_mailbox.h"
#include "kv/protocol/terminator.h"

namespace farside::kv {

class Server {
 public:
  /// `bell_offset` of `bells`: the AtomicWord that clients advance who want this server to wake up.
  Server(Fabric& fabric, Channel& channel, Store& store, const Region& bells, std::uint64_t bell_offset,
         const MailboxShape& shape)
      : fabric_(fabric),
        channel_(channel),
        store_(store),
        handler_(store),
        bells_(bells),
        bell_(bells.word<AtomicWord>(bell_offset)),
        shape_(shape) {}

  /// Serves `client` until it is lost or speaks another protocol.
  void attach(const MailboxEnd& client, Waking waking);

  /// Has transactions finished whose clients are not heard of. `terminator` outlives this.
  void finish_with(Terminator& terminator) { terminator_ = &terminator; }

  /// Takes what has come. True if there was anything.
  bool serve_once();
  /// Serves, and sleeps while nothing comes, until `ended` holds, which is asked at least every kLongestPause.
  void serve_until(const std::function<bool()>& ended);

  static constexpr Duration kLongestPause = std::chrono::milliseconds(20);

 private:
  // Clients that ring no bell are looked for more often.
  static constexpr Duration kFirstPause = std::chrono::microseconds(20);
  static constexpr Duration kLongestPolledPause = std::chrono::milliseconds(1);
  static constexpr std::size_t kReclaimedAtOnce = 16;

  struct Connection {
    Waking waking;
    ServedMailbox mailbox;
    bool ended = false;  ///< there is nobody any more, or nobody who speaks this protocol
  };

  bool serve(Connection& connection);
  void answer(Connection& connection);
  void sleep(std::uint64_t bell_before, Duration pause);

  Fabric& fabric_;
  Channel& channel_;
  Store& store_;
  RequestHandler handler_;
  const Region& bells_;
  const LocalWord<AtomicWord> bell_;
  const MailboxShape shape_;
  std::vector<std::unique_ptr<Connection>> connections_;
  Terminator* terminator_ = nullptr;
};

}  // namespace farside::kv
