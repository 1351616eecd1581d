// channel.h — what one thread posts through to peers on other hosts: a UCX worker of its own, and a link (an endpoint)
// to each peer it ever posted to. Both are made when they are first needed: a worker takes milliseconds and listens.
#pragma once

#include <atomic>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "farside/fabric/channel.h"
#include "farside/fabric/region.h"
#include "farside/fabric/time.h"

#include "base/throttled_log.h"
#include "fabric/time_limits.h"
#include "fabric/ucx/channel_set.h"
#include "fabric/ucx/context.h"
#include "fabric/ucx/peer.h"

namespace farside {

class UcxChannel {
 public:
  UcxChannel(const UcxContext& context, const UcxCredentials& self, UcxChannelSet& siblings);
  UcxChannel(const UcxChannel&) = delete;
  UcxChannel& operator=(const UcxChannel&) = delete;
  ~UcxChannel();

  /// `operation.region->access()` must come from this engine's attach. What can complete at once does; the rest goes on
  /// while the channel waits.
  void post(const Operation& operation, Completion& completion);
  /// As Channel::finish. When the deadline passes, the endpoints involved are closed, and with them everything else
  /// this channel has under way to the same peers ends in timed_out; they are made anew by the next operation.
  void finish(Completion& completion, Deadline deadline);
  /// To what a loss of WRITEs is reported, to each once.
  enum Report : std::uint8_t { kFence = 1, kSignal = 2, kFlush = 4, kOperation = 8, kAllReports = 15 };

  /// As Channel::fence and Channel::flush.
  Outcome fence(PeerId peer, Deadline deadline);
  Outcome flush(PeerId peer, Deadline deadline);
  /// Flushes several peers at once, for a flush or for a signal. Returns the outcome of each.
  std::vector<Outcome> flush(std::span<const PeerId> peers, Report report, Deadline deadline);
  Outcome flush_all(Deadline deadline);

  /// Has the channel look at its peers; from any thread.
  void alarm();

  /// How long an operation on a link that broke waits to be told whether its peer is lost: peer_lost when that becomes
  /// known, link_lost at the end of that time or at the operation's deadline. Other peers are not waited for.
  void set_until_explained(Duration duration) { until_explained_ = duration; }

 private:
  struct Link;

  /// Something that UCX or the target has not finished.
  struct Pending {
    Link* link;
    Completion* completion;
    std::list<Pending>::iterator self;
    bool is_atomic;
    // As messages (operations.cc).
    UcxOperation message{};
    std::byte* local = nullptr;  ///< what a WRITE has not sent yet, or where a result goes
    std::uint64_t unsent = 0;    ///< bytes of a WRITE
    std::uint64_t unread = 0;    ///< bytes of the result
    bool is_in_ucx = false;      ///< the message is

    void advance(std::uint64_t sent) {
      message.address += sent;
      local += sent;
      unsent -= sent;
    }
  };

  static void on_done(void* request, ucs_status_t status, void* pending);
  static void on_piece_sent(void* request, ucs_status_t status, void* pending);
  static ucs_status_t on_result(void* channel, const void* header, std::size_t header_bytes, void* data,
                                std::size_t bytes, const ucp_am_recv_param_t* params);
  static void on_link_error(void* link, ucp_ep_h endpoint, ucs_status_t status);
  static ucs_status_t on_answer(void* channel, const void* header, std::size_t header_bytes, void* message,
                                std::size_t bytes, const ucp_am_recv_param_t* params);

  /// The link, made if necessary. One that failed stays until that is explained.
  Link& link_to(const std::shared_ptr<UcxPeer>& peer);
  /// Makes the endpoint, once the pause after the last failure is over; called until then.
  void open(Link& link);
  void open_now(Link& link);
  /// Sends the hello; over TCP alone, only once the connection is up, so it is called until it did.
  void send_hello(Link& link);
  /// Ends a link that was taken out of links_ as is known by now.
  void end_failed(std::unique_ptr<Link> link);
  /// Has the next link to that peer wait for a while.
  void note_failure(const Link& link);
  Link* find(PeerId peer);
  void submit(Link& link, const Operation& operation, Completion& completion);
  /// Runs `start`, which starts something in UCX with the parameters it is given, as a part of `completion`.
  template <class Start>
  void track(Link& link, Completion& completion, Start&& start);
  /// Takes note of one more thing under way as a part of `completion`.
  Pending& begin(Link& link, Completion& completion, bool is_atomic);
  void settle(Pending& pending, ucs_status_t status);
  /// Has the target's CPU carry `operation` out.
  void ask(Link& link, const Operation& operation, std::uint64_t address, Completion& completion);
  void send(Pending& pending);
  /// Has nothing of the link await a result any more.
  void stop_awaiting(const Link& link);
  /// Closes a link that was taken out of links_; all it has under way ends with `outcome`, and none of it touches a
  /// local buffer afterwards.
  void end(std::unique_ptr<Link> link, Outcome outcome);
  /// All that end does but to have UCX let go of what is under way.
  void write_off(Link& link, Outcome outcome);
  /// Has UCX let go of everything by destroying the worker, and with it all links; `first` was taken out of links_.
  void drop_worker(std::unique_ptr<Link> first);
  /// Records that operations posted to `peer` may be lost, or land late. Fences, flushes and signals report that,
  /// except those that `told` names; once one of them returns done, no such operation may land.
  void spoil(const std::shared_ptr<UcxPeer>& peer, Outcome outcome, std::uint8_t told);
  void drop_answered();
  void abandon(Completion& completion);
  struct Flush {
    PeerId peer = 0;
    std::uint64_t link = 0;  ///< its number when the flush began
    Completion completion;
  };
  /// WRITEs that were lost with their link, and may still land till the peer has closed its end of that.
  struct Spoiled {
    Outcome outcome;  ///< why, for the next flush to say
    std::shared_ptr<UcxPeer> peer;
    std::uint8_t told;  ///< of Report
  };
  /// Operations that were not posted since a fence had put them after lost WRITEs, and whose caller has not been told.
  /// They are pending till it waits for them.
  struct Refused {
    Completion* completion;
    std::shared_ptr<UcxPeer> peer;
  };
  /// A fence has put this operation after WRITEs that are lost. True when it is not to be posted.
  bool comes_after_lost_writes(const std::shared_ptr<UcxPeer>& peer, Completion& completion);
  /// The caller waits for it, and so is told of what was refused.
  void tell_refused(Completion& completion);
  /// Returns the outcome to report once the links were flushed or found idle.
  [[nodiscard]] Outcome verdict(PeerId peer, Outcome flushed, Report report, Deadline deadline);
  [[nodiscard]] bool old_link_is_closed(std::shared_ptr<UcxPeer> peer, Deadline deadline);
  void flush_links(std::span<Flush> flushes, Deadline deadline);
  /// Until everything that was posted there is finished, or explained; records what is not.
  void await_quiet(std::span<Flush> flushes, Deadline deadline);
  void flush_endpoint(Link& link, Completion& completion);
  void read_back(Link& link, Completion& completion);

  /// Returns whether anything happened.
  bool progress();
  /// Sends hellos on new links, ends those whose failure is explained or whose peer was lost, and posts what waited for
  /// a welcome.
  void attend();
  template <class Predicate>
  bool wait(Predicate&& holds, Deadline deadline);

  const UcxContext& context_;
  const UcxCredentials& self_;
  UcxChannelSet& siblings_;
  // For those that UCX has not finished it calls back when its worker is destroyed.
  std::list<Pending> under_way_;
  std::list<Pending> spare_;                             // nodes of under_way_ to use again
  std::unordered_map<std::uint64_t, Pending*> awaited_;  // by ticket: what a result is to come for
  std::uint64_t tickets_ = 0;
  // Ended before they were welcome. Over TCP they stay open till the peer answered or their connection broke.
  std::vector<std::unique_ptr<Link>> unanswered_;
  std::optional<UcxWorker> worker_;  // made with the first link; without one there is nothing to progress or to wake
  std::unordered_map<PeerId, std::unique_ptr<Link>> links_;
  std::unordered_map<PeerId, Spoiled> spoiled_;
  std::vector<Refused> refused_;
  /// After a link that failed, until a later one is welcome: callers that try again must not spin.
  struct Pause {
    std::shared_ptr<UcxPeer> peer;
    Duration length;
    Time end;
  };
  std::unordered_map<PeerId, Pause> pauses_;
  const std::uint64_t number_;  ///< of the engine's channels
  ThrottledLog log_;
  std::uint64_t links_opened_ = 0;
  /// Endpoints of the worker to one engine. UCX counts them on both sides.
  struct Opened {
    std::uint64_t endpoints = 0;
    std::uint64_t answered = 0;  ///< of those, the engine had heard of when it answered last
    bool is_uncertain = false;   ///< UCX counts only some of the endpoints that it failed to make
  };
  std::map<UcxIdentity, Opened> opened_;
  bool renews_worker_ = false;
  Duration until_explained_ = fabric::time_limits::kUntilExplained;
  std::uint64_t read_back_ = 0;  // where a flush reads to
  std::atomic<bool> attention_ = false;
};

}  // namespace farside
