// engine.h — one-sided access to other hosts through UCX: one engine a process, made when the first peer on another
// host appears (ucp_init and the service worker take about 10 ms each).
//
// Peers' channels connect to the service worker. Over TCP, and for atomics, the target's CPU carries out what
// arrives (target.h): a thread makes its worker progress, and sleeps while nothing arrives.
//
// Times are those of std::chrono::steady_clock. UCX reads its own settings: UCX_NET_DEVICES names the devices it
// listens on, UCX_TLS the transports (unset: all but those within a host and those of GPUs; read_config in context.cc).
// After it started, the process must not fork and go on using it in the child.
//
// Thread safety: every call, from any thread. A UcxChannel belongs to one thread. The engine outlives its channels,
// memories and accesses.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "farside/base/fd.h"
#include "farside/fabric/channel.h"
#include "farside/fabric/fabric.h"
#include "farside/fabric/region.h"
#include "farside/fabric/time.h"

#include "base/mutex.h"
#include "base/throttled_log.h"
#include "fabric/ucx/channel.h"
#include "fabric/ucx/context.h"
#include "fabric/ucx/peer.h"
#include "fabric/ucx/target.h"

namespace farside {

/// Memory that peers reach through UCX. The caller owns the memory, which must outlive this.
class UcxMemory {
 public:
  UcxMemory(const UcxContext& context, std::byte* base, std::uint64_t bytes);

  /// The argument for UcxEngine::attach; opaque, at most 512 bytes.
  [[nodiscard]] const std::string& handle() const noexcept { return handle_; }

 private:
  struct Unmap {
    ucp_context_h context;
    void operator()(ucp_mem_h memory) const { ucp_mem_unmap(context, memory); }
  };
  std::unique_ptr<std::remove_pointer_t<ucp_mem_h>, Unmap> memory_;
  std::string handle_;
};

class UcxEngine {
 public:
  /// `on_event` is called, from any thread, after something arrived for this process or a peer was found lost: local
  /// waiters look again. It must not block and not call the engine.
  explicit UcxEngine(std::function<void()> on_event, const HostFabricOptions& options = {});
  UcxEngine(const UcxEngine&) = delete;
  UcxEngine& operator=(const UcxEngine&) = delete;
  ~UcxEngine();

  // Set-up. Failures throw Error.

  /// How peers reach this process; opaque, of at most 2 KiB.
  [[nodiscard]] std::string address() const;
  /// Again for the same number: a new incarnation, whose predecessor's operations end in peer_lost.
  void connect(PeerId peer, std::string_view address);
  [[nodiscard]] std::unique_ptr<UcxMemory> offer(std::byte* base, std::uint64_t bytes);
  /// Takes over a mapping whose UcxMemory is gone. A peer's late operation still names its addresses, and UCX would
  /// follow it: it must find neither a hole, which would end this process, nor memory in another use.
  void retire(Mapping mapping) noexcept;
  /// For RemoteRegion::access().
  [[nodiscard]] static std::unique_ptr<RemoteAccess> attach(std::shared_ptr<UcxPeer> peer, std::string_view handle);
  [[nodiscard]] std::unique_ptr<UcxChannel> open_channel();

  // Peers. One whose process ends is marked lost by the engine itself, within milliseconds if its host lives on.

  /// Ends every operation to `peer`, now and later, with peer_lost.
  void mark_lost(PeerId peer);
  [[nodiscard]] bool lost(PeerId peer) const;
  /// The process that has that number now.
  [[nodiscard]] std::shared_ptr<UcxPeer> peer(PeerId number) const;
  /// Marks it lost and closes what it opened to this process, though its number may be another's by now: done when
  /// nothing that it posted can land any more. What this rests on stands in docs/protocols/fabric_ucx.md.
  Outcome revoke(const std::shared_ptr<UcxPeer>& peer, Deadline deadline);
  /// No peer's operation is answered after this, so nothing finds what retire makes blank. Channels go on.
  void stop_answering() noexcept;

 private:
  struct Line;

  static void on_line_error(void* line, ucp_ep_h endpoint, ucs_status_t status);
  static ucs_status_t on_hello(void* engine, const void* header, std::size_t header_bytes, void* message,
                               std::size_t bytes, const ucp_am_recv_param_t* params);
  /// To be answered in its turn. One that makes no sense is reported and dropped.
  void take_hello(std::string_view hello) REQUIRES(mutex_);
  /// For want of memory. No exception may pass through UCX, which is C, nor end the service thread.
  void report_dropped_hello() noexcept;
  /// As if UCX had reported the failure of that endpoint.
  void fail_line(ucp_ep_h endpoint);
  /// Answers hellos, in their order, after making the other ends of endpoints whose hello never came: a bounded
  /// number at a time. Returns whether there was anything to do.
  bool answer_hellos() REQUIRES(mutex_);
  /// Makes at most `left` endpoints, and counts them off. Returns false when it is to go on in the next turn.
  bool answer_hello(const UcxHello& hello, unsigned& left) REQUIRES(mutex_);
  /// Opens the other end of the endpoint behind a hello, counts it, and welcomes its channel or turns it away.
  void receive(const UcxHello& hello, std::uint64_t& opened) REQUIRES(mutex_);
  /// Forgets the workers that have no endpoint here, when it knows many. Returns whether there is room for one more.
  bool has_room_for_worker() REQUIRES(mutex_);
  void answer(Line& line, bool welcome) REQUIRES(mutex_);

  void serve(const std::stop_token& stop);
  /// Makes the service worker progress for a bounded time; returns whether anything happened.
  bool turn();
  /// Has the service thread let a caller in, which a mutex does not promise to one that waits.
  void lock() const ACQUIRE(mutex_);
  /// Returns false when the deadline passed.
  [[nodiscard]] bool lock_by(Deadline deadline) const TRY_ACQUIRE(true, mutex_);
  /// Gives the mutex up now and then while it waits.
  [[nodiscard]] bool await_flush(Deadline deadline) REQUIRES(mutex_);
  /// Drops the lines that failed; returns whether that lost a peer.
  bool drop_failed_lines() REQUIRES(mutex_);
  void lose(const std::shared_ptr<UcxPeer>& dead);
  void spread_loss();

  const std::function<void()> on_event_;
  mutable Mutex tables_mutex_;  ///< never held while UCX is called; locked after mutex_
  /// Blank; there for longer than the service thread.
  std::vector<Mapping> retired_ GUARDED_BY(tables_mutex_);
  const UcxContext context_;
  const UcxCredentials self_;
  UcxChannelSet channels_;

  std::map<PeerId, std::shared_ptr<UcxPeer>> peers_ GUARDED_BY(tables_mutex_);

  mutable Mutex mutex_;                        ///< held for bounded times only
  mutable std::atomic<unsigned> waiting_ = 0;  ///< for mutex_, the service thread not counted
  UcxTarget target_ GUARDED_BY(mutex_);
  UcxWorker worker_;  ///< used under mutex_, but to wake it and to sleep
  std::list<Line> lines_ GUARDED_BY(mutex_);
  bool line_failed_ GUARDED_BY(mutex_) = false;
  std::deque<UcxHello> hellos_ GUARDED_BY(mutex_);  ///< not answered yet
  bool has_progressed_ GUARDED_BY(mutex_) = false;  ///< while the service thread did not look
  std::set<UcxIdentity> revoked_ GUARDED_BY(mutex_);
  /// To each worker, as UCX counts them on both sides.
  std::unordered_map<std::string, std::uint64_t> endpoints_opened_ GUARDED_BY(mutex_);
  ThrottledLog log_;

  std::jthread service_;
};

}  // namespace farside
