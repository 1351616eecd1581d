// coordinator.h — where the members of a team meet: admits each process that proves to know the pool's secret, gathers
// what each contributes to an exchange, and tells all which ranks are lost and which have come back. Memory traffic
// never passes through it.
//
// Each loss and each return begins an epoch. An exchange belongs to one epoch: it is complete when all ranks have
// contributed in it. A process that takes the seat of a lost rank repeats the exchanges that are complete, alone, and
// the others hear of it when it has.
//
// It runs on a thread of its own, in the launcher's or the supervisor's process, and sleeps when nothing happens.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "farside/team/team.h"

#include "base/throttled_log.h"
#include "net/connection.h"
#include "net/introduction.h"
#include "team/bootstrap.h"

namespace farside::team {

class Coordinator {
 public:
  /// Throws Error on the first thing that a member contributes when it cannot be one of this team.
  using Admission = std::function<void(Rank rank, const std::string& first)>;

  /// Listens on `address` (net/socket.h) for the members of a team of `size`. A member that `admission` refuses is told
  /// why and loses its seat, before any other member has seen what it contributed.
  Coordinator(const std::string& address, const net::Secret& secret, Rank size, Admission admission = {});
  ~Coordinator() { loop_.stop(); }
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  /// The address on which it listens, with the port that the kernel chose.
  [[nodiscard]] const std::string& address() const noexcept { return address_; }

  /// For the process that started the one that was to be `rank`: the latter has ended, and `how` says how ("exited with
  /// code 0"). If the team is not formed yet, no member waits for it from then on.
  void miss(Rank rank, const std::string& how);

 private:
  using PeerNumber = std::uint64_t;
  /// Why a peer is sent away; none while it behaves.
  using Refusal = net::Introduction::Refusal;

  /// The fields of a frame, which several peers may have to get.
  using Fields = std::shared_ptr<const std::string>;
  struct Unsealed {
    net::FrameKind kind;
    Fields fields;
  };

  /// A connected peer: a stranger until it has a session.
  struct Peer {
    std::unique_ptr<net::Connection> connection;
    std::deque<Unsealed> outbox;  ///< sealed when the connection has room: see send
    net::SetupClock::time_point came;
    unsigned beats_since_heard = 0;
    net::Introduction introduction;
    std::optional<net::Session> session;
    Rank rank = 0;
  };

  /// One rank of the team.
  struct Seat {
    std::optional<PeerNumber> holder;
    std::uint16_t incarnation = 0;  ///< the holder's
    std::uint16_t next_incarnation = 0;
    bool present = false;               ///< its holder has taken part in every exchange that is complete
    std::vector<std::string> repeated;  ///< what a holder that is not present yet has contributed to them
    std::optional<std::string> blob;    ///< its part of the exchange under way
    std::string missed;                 ///< how the process ended that was to sit here; empty while one may come
  };

  void accept_peer();
  void serve(PeerNumber number);
  Refusal advance(PeerNumber number, Peer& peer);
  Refusal shake_hands(PeerNumber number, Peer& peer);
  Refusal admit(PeerNumber number, Peer& peer, const net::Claim& claim);
  Refusal obey(Peer& peer, const net::Frame& frame);
  Refusal contribute(Rank rank, const net::Frame& frame);
  [[nodiscard]] Refusal examine(Rank rank, const std::string& first) const;
  Refusal evict(const net::Frame& frame);
  Refusal repeat(Rank rank, std::uint32_t number, std::string blob);
  void complete_exchange();
  void fail_exchange(const std::string& reason);
  [[nodiscard]] std::string absentees() const;

  [[nodiscard]] bool seated(PeerNumber number, const Peer& peer) const;
  void refuse(PeerNumber number, const std::string& reason);
  void log_refusal(const std::string& reason);
  [[nodiscard]] std::size_t strangers() const;
  bool refuse_oldest_stranger(const std::string& reason);
  void unseat(Rank rank, Loss loss);
  void begin_anew();
  void close(PeerNumber number);
  /// Each peer's frames are sealed with a key of its own, so a copy of them is made for each: only when the peer has
  /// taken what was sent before. Until then all peers share the fields.
  static void send(Peer& peer, net::FrameKind kind, Fields fields);
  static void send_what_fits(Peer& peer);
  void broadcast(net::FrameKind kind, std::string fields);
  /// The frames that carry an exchange: as many blobs in each as come to some kilobytes.
  [[nodiscard]] static std::vector<Fields> parts_of(const std::vector<std::string>& blobs);

  void keep_time();
  void on_tick();

  std::string address_;
  net::Secret secret_;
  Admission admission_;
  std::vector<Seat> seats_;
  std::optional<net::SetupClock::time_point> due_;  ///< of the exchange under way
  std::uint32_t epoch_ = 0;                         ///< losses and returns so far
  std::vector<std::vector<std::string>> complete_;  ///< the exchanges that are: the newest blob of each rank
  bool ticking_ = false;
  ThrottledLog log_;
  PeerNumber next_peer_ = 0;
  Fd listener_;
  net::EventLoop loop_;
  std::map<PeerNumber, Peer> peers_;  // by age
};

}  // namespace farside::team
