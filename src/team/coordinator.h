// coordinator.h — where the members of a team meet: admits each process that proves to know the pool's secret, gathers
// what each contributes to an exchange, and tells all which ranks are lost and which have come back. Memory traffic
// never passes through it.
//
// Each loss and each return begins an epoch. An exchange belongs to one epoch: it is complete when all ranks have
// contributed in it. A process that takes the seat of a lost rank repeats the exchanges that are complete, alone, and
// the others hear of it when it has.
//
// Each decision is in its log before any process learns of it. One that is killed can be started again with that log:
// the members, which go on without a coordinator, keep their seats (docs/protocols/team.md, "When the coordinator
// fails").
//
// It runs on a thread of its own, in the launcher's or the supervisor's process, and sleeps when nothing happens.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "farside/team/team.h"

#include "authority/decision_store.h"
#include "base/throttled_log.h"
#include "net/introduction.h"
#include "team/bootstrap.h"
#include "team/coordinator_peer.h"
#include "team/decision_log.h"
#include "team/liveness.h"
#include "team/membership.h"

namespace farside::team {

class Coordinator {
 public:
  /// Throws Error on the first thing that a member contributes when it cannot be one of this team.
  using Admission = std::function<void(Rank rank, const std::string& first)>;

  /// A place for its decisions, and the options that all members share. If there are decisions the team is taken over.
  struct Log {
    std::unique_ptr<authority::DecisionStore> store;
    std::string terms;
    /// Taken in the place of what the store has, which may lack decisions.
    std::optional<TeamState> newer{};
    std::vector<Rank> ended{};  ///< their processes have ended for certain
  };

  /// Listens on `address` (net/socket.h) for the members of a team of `size`. With a log, and between hosts, the
  /// members go on when they lose it. A member that `admission` refuses is told why and loses its seat, before any
  /// other member has seen what it contributed. Without `log` the team ends with this process. `silence` (liveness.h)
  /// counts between hosts. Throws Error when it cannot listen, or the log is of another team or damaged.
  Coordinator(const std::string& address, const net::Secret& secret, Rank size, Admission admission = {},
              std::optional<Log> log = {}, std::chrono::milliseconds silence = kDefaultSilence);
  /// As if the process were killed: the log stays, and members on other hosts go on.
  ~Coordinator() { loop_.stop(); }
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  /// The address on which it listens, with the port that the kernel chose.
  [[nodiscard]] const std::string& address() const noexcept { return address_; }

  /// For the process that started the one that was to be `rank`: the latter has ended, and `how` says how ("exited with
  /// code 0"). If the team is not formed yet, no member waits for it from then on.
  void miss(Rank rank, const std::string& how);
  /// Ends the team: tells the members, and removes the log, unless they cannot be told. The last call.
  void end_team();
  /// The processes of `ended` have left, if they are of this host. Ends the team if no member is left. Returns whether
  /// nothing is left of it. The last call but take_state.
  [[nodiscard]] bool end_if_deserted(const std::vector<Rank>& ended);
  /// Ends as the destructor does, and returns what was decided. The last call.
  [[nodiscard]] TeamState take_state();
  /// Its store had been put back to an earlier state: has the team's state in it.
  void rewrite_log();
  /// Its decisions are kept no more, and it makes none.
  [[nodiscard]] bool has_given_up() const { return has_given_up_; }
  /// The process that had `rank` has ended for certain: no member waits for it. On one host this has to be called for
  /// each that was a member when the team was taken over, and may have to for each that ends later.
  /// Requires: it is called before another process is started as that rank.
  void report_dead(Rank rank);

 private:
  using PeerNumber = std::uint64_t;
  /// Why a peer is sent away; none while it behaves.
  using Refusal = net::Introduction::Refusal;

  using Peer = CoordinatorPeer;

  /// One rank of the team.
  struct Seat {
    std::optional<PeerNumber> holder;   ///< none: it is free, or its process, which is present, is awaited
    unsigned beats_to_wait = 0;         ///< for that one
    std::vector<std::string> repeated;  ///< what a holder that is not present yet has given to complete exchanges
    std::optional<std::string> blob;    ///< its part of the exchange under way
    std::string missed;                 ///< how the process ended that was to sit here; empty while one may come
  };

  void accept_peer();
  void serve(PeerNumber number);
  Refusal advance(PeerNumber number, Peer& peer);
  Refusal shake_hands(PeerNumber number, Peer& peer);
  Refusal admit(PeerNumber number, Peer& peer, const net::Claim& claim);
  Refusal copy_log_to(Peer& peer);
  void keep_copying(PeerNumber number, Peer& peer);
  Refusal keep_seat(PeerNumber number, Peer& peer, const net::Frame& frame);
  void welcome(Peer& peer) const;
  Refusal obey(Peer& peer, const net::Frame& frame);
  Refusal contribute(Rank rank, const net::Frame& frame);
  [[nodiscard]] Refusal examine(Rank rank, const std::string& first) const;
  Refusal evict(const net::Frame& frame);
  Refusal repeat(Rank rank, std::uint32_t number, std::string blob);
  void complete_exchange();
  void fail_exchange(const std::string& reason);
  [[nodiscard]] std::string absentees() const;

  [[nodiscard]] bool decide(Decision decision);
  void hand_on(const Decision& decision);
  [[nodiscard]] bool can_do_without_log(DecisionLog::Kept kept);
  void give_up();
  void tell_of_change();

  [[nodiscard]] bool seated(PeerNumber number, const Peer& peer) const;
  [[nodiscard]] bool is_awaited(Rank rank) const { return membership_.is_present(rank) && !seats_[rank].holder; }
  [[nodiscard]] bool is_any_awaited() const;
  [[nodiscard]] bool has_certainly_ended(Rank rank) const;
  [[nodiscard]] bool is_on_one_host() const { return net::is_host_local(address_); }
  void await(Rank rank, unsigned beats);
  void hang_up(Seat& seat);
  void send_result(Rank rank, std::uint32_t number, const std::vector<std::string>& blobs);
  void give_up_awaited();
  void take_over(const std::vector<Rank>& ended);
  void settle_copy();
  void settle_silence();
  void admit_deferred();
  void refuse(PeerNumber number, const std::string& reason);
  void log_refusal(const std::string& reason);
  [[nodiscard]] std::size_t strangers() const;
  bool refuse_oldest_stranger(const std::string& reason);
  void unseat(Rank rank, Loss loss);
  void begin_anew();
  void close(PeerNumber number);
  void broadcast(net::FrameKind kind, std::string fields);

  void keep_time();
  void on_tick();

  std::string address_;
  net::Secret secret_;
  Admission admission_;
  const std::uint32_t silent_beats_;
  Membership membership_;
  std::optional<DecisionLog> decisions_;
  std::atomic<bool> has_given_up_ = false;  ///< its log failed: it decides nothing any more
  std::vector<Seat> seats_;
  std::optional<net::SetupClock::time_point> due_;  ///< of the exchange under way
  /// No member of the team that was taken over has been heard yet: perhaps none is left.
  bool is_unheard_ = false;
  /// A member knows of decisions that this coordinator's log lacks: it cannot tell which processes live.
  bool is_behind_ = false;
  unsigned beats_until_reached_ = 0;  ///< for this host's network, before the time of awaited members counts
  bool ticking_ = false;
  ThrottledLog log_;
  PeerNumber next_peer_ = 0;
  Fd listener_;
  net::EventLoop loop_;
  std::map<PeerNumber, Peer> peers_;  // by age
};

}  // namespace farside::team
