// load_queue.h — requests that may have to wait for a file system: which go on, which wait for their turn, and which
// have waited long enough. They are told of as loads of blocks here. The identification of a file waits in a queue of
// the same kind, in which a mount takes the block's place.
//
// A file system may be slow, or hang. So at most kMaxLoads are under way at once; what asks for a block that is being
// loaded already waits for that load, without taking a turn; and nothing waits for ever: whatever has no answer in
// time is told `busy`, also what is under way, by another thread than the one that is inside the file system. So a
// program that gets no answer knows that its node does not run.
//
// Guarantee: while something waits, something is under way, whose thread takes it next.
//
// Thread safety: every call, from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <list>
#include <optional>
#include <span>
#include <vector>

#include "farside/cache/cache.h"
#include "farside/cache/node_socket.h"

#include "base/mutex.h"
#include "node/socket_packet.h"

namespace farside::node {

/// A request as it came, and from which client.
struct Visit {
  int client = -1;
  std::array<std::byte, sizeof(cache::node_socket::Request)> buffer{};
  Packet packet;
  cache::LoaderWatch watch;

  [[nodiscard]] std::span<const std::byte> bytes() const {
    return std::span(buffer).first(packet.whole ? packet.bytes : 0);
  }
};

class LoadQueue {
 public:
  static constexpr std::size_t kMaxLoads = 8;  ///< they mostly wait; more of them than cores keep a file system busy
  static constexpr std::size_t kMaxWaiting = 1024;

  struct UnderWay {
    int client;
    cache::BlockKey key;
    Time arrived;
    bool answered = false;  ///< by another thread
  };
  struct Turn {
    std::list<UnderWay>::iterator place;
    Visit visit;
  };
  enum class Admission : std::uint8_t { begun, waiting, busy };
  struct Admitted {
    Admission admission;
    std::optional<Turn> turn;  ///< if begun: the caller's
  };

  /// Takes in a request for block `key`. It stays the caller's only where `busy` is returned, and is to be told so.
  [[nodiscard]] Admitted take_in(Visit& visit, const cache::BlockKey& key, Time now);
  /// The turn is over. False when its client was answered meanwhile, and is none of the caller's business any more.
  [[nodiscard]] bool end(const Turn& turn, Time now);
  /// The turn is over without an answer: it waits once more, behind all others.
  void postpone(Turn turn, Time now);
  /// The next turn for a thread whose last one is over.
  [[nodiscard]] std::optional<Turn> next(Time now);

  /// The clients that are due to be told `busy`, which is the caller's to do.
  [[nodiscard]] std::vector<int> take_late(Time now);
  /// Returns when something is under way, or the queue was closed: then false.
  [[nodiscard]] bool wait_while_idle();
  /// Nothing is looked for any more.
  void close();

 private:
  struct Waiting {
    Visit visit;
    cache::BlockKey key;
    Time arrived;
    bool begun = false;  ///< it had a turn, in which another node was loading its block
  };
  [[nodiscard]] std::list<UnderWay>::const_iterator find(const cache::BlockKey& key) const REQUIRES(mutex_);
  [[nodiscard]] bool is_under_way(const cache::BlockKey& key) const REQUIRES(mutex_);
  [[nodiscard]] Turn begin(Waiting waiting, Time now) REQUIRES(mutex_);

  Mutex mutex_;
  ConditionVariable changed_;
  std::list<UnderWay> under_way_ GUARDED_BY(mutex_);
  std::deque<Waiting> waiting_ GUARDED_BY(mutex_);
  Time last_change_ GUARDED_BY(mutex_){};  // when a load last began or ended
  bool closed_ GUARDED_BY(mutex_) = false;
};

}  // namespace farside::node
