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

#include "fabric/ucx/channel_set.h"
#include "fabric/ucx/context.h"
#include "fabric/ucx/peer.h"

namespace farside {

class UcxChannel {
 public:
  UcxChannel(const UcxContext& context, const UcxIdentity& self, UcxChannelSet& siblings);
  UcxChannel(const UcxChannel&) = delete;
  UcxChannel& operator=(const UcxChannel&) = delete;
  ~UcxChannel();

  /// `operation.region->access()` must come from this engine's attach. What can complete at once does; the rest goes on
  /// while the channel waits. Throws Error when the channel's worker cannot be made.
  void post(const Operation& operation, Completion& completion);
  /// As Channel::finish. When the deadline passes, the endpoints involved are closed, and with them everything else
  /// this channel has under way to the same peers ends in timed_out; they are made anew by the next operation.
  void finish(Completion& completion, Deadline deadline);
  /// As Channel::fence and Channel::flush.
  Outcome fence(Deadline deadline);
  Outcome flush(PeerId peer, Deadline deadline);
  /// Of several peers at once; the outcome of each.
  std::vector<Outcome> flush(std::span<const PeerId> peers, Deadline deadline);
  Outcome flush_all(Deadline deadline);

  /// Has the channel look at its peers; from any thread.
  void alarm();

 private:
  struct Link;

  /// Something UCX has not finished.
  struct Pending {
    Link* link;
    Completion* completion;
    std::list<Pending>::iterator self;
  };

  static void on_done(void* request, ucs_status_t status, void* pending);
  static void on_link_error(void* link, ucp_ep_h endpoint, ucs_status_t status);
  static ucs_status_t on_answer(void* channel, const void* header, std::size_t header_bytes, void* message,
                                std::size_t bytes, const ucp_am_recv_param_t* params);

  /// A usable link, made if necessary; null when UCX cannot.
  Link* link_to(const std::shared_ptr<UcxPeer>& peer);
  std::unique_ptr<Link> open_link(const std::shared_ptr<UcxPeer>& peer);
  /// Sends the greeting; over TCP alone, only once the connection is up, so it is called until it did.
  void greet(Link& link);
  Link* find(PeerId peer);
  void submit(Link& link, const Operation& operation, Completion& completion);
  /// Runs `start`, which starts something in UCX with the parameters it is given, as a part of `completion`.
  template <class Start>
  void track(Link& link, Completion& completion, Start&& start);
  void settle(Pending& pending, ucs_status_t status);
  /// Closes a link that was taken out of links_; all it has under way ends with `outcome`, and none of it touches a
  /// local buffer afterwards.
  void end(std::unique_ptr<Link> link, Outcome outcome);
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
    bool told = false;
  };
  /// What a flush says after the links were flushed.
  [[nodiscard]] Outcome verdict(PeerId peer, Outcome flushed, Deadline deadline);
  [[nodiscard]] bool old_link_is_closed(std::shared_ptr<UcxPeer> peer, Deadline deadline);
  void flush_links(std::span<Flush> flushes, Deadline deadline);
  void flush_endpoint(Link& link, Completion& completion);
  void read_back(Link& link, Completion& completion);

  /// Returns whether anything happened.
  bool progress();
  /// Greets on new links, ends those that failed or whose peer was lost, and posts what waited for a welcome.
  void attend();
  template <class Predicate>
  bool wait(Predicate&& holds, Deadline deadline);

  const UcxContext& context_;
  const UcxIdentity& self_;
  UcxChannelSet& siblings_;
  // What UCX still calls back for when its worker is destroyed.
  std::list<Pending> under_way_;
  std::list<Pending> spare_;  // nodes of under_way_ to use again
  // Ended before they were welcome. Over TCP they stay open till the peer answered or their connection broke.
  std::vector<std::unique_ptr<Link>> unanswered_;
  std::optional<UcxWorker> worker_;  // made with the first link; without one there is nothing to progress or to wake
  std::unordered_map<PeerId, std::unique_ptr<Link>> links_;
  std::unordered_map<PeerId, Spoiled> spoiled_;
  std::uint64_t links_opened_ = 0;
  std::map<UcxIdentity, std::uint64_t> endpoints_opened_;  // to each engine, as UCX counts them on both sides
  std::uint64_t read_back_ = 0;                            // where a flush reads to
  std::atomic<bool> attention_ = false;
};

}  // namespace farside
