// spread.h — a broadcast whose receivers pass on what they get (docs/protocols/comm.md, "Broadcast").
//
// The receivers form a tree below the sender: its children are the first kFanOut of them, and those of number n are the
// kFanOut from kFanOut (n + 1) on. The data go down in pieces, each written by the parent to where the child wants it
// in the end; so a child passes it on from there, and tells its program only afterwards. At each rank:
//
//   given[s]     ControlWord   written by its parent in a tree of sender s: number of the broadcast (40 bits), and how
//                              many of its pieces are here (24)
//   reached[r]   ControlWord   written by receiver r: the last broadcast of this rank that r is through with
//   order[s]     Bulk          written by the parent before the first piece: what it is, and which members want it
//
// Guarantee: a receiver's program is told once, when all bytes are there and no process touches them any more; the
// sender learns that all have been told. Receivers below a lost one may get nothing.
//
// Thread safety: all calls by one thread, which calls serve and go_on whenever it was rung.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "farside/team/team.h"

#include "comm/protocol/rules.h"
#include "comm/time_limits.h"

namespace farside::comm {

class Spread {
 public:
  static constexpr std::uint32_t kFanOut = 2;
  struct Options {
    std::uint64_t piece_bytes = 256U << 10U;
    /// Timeout of one transfer: a rank that does not answer must not hold up the others.
    Duration step_timeout = comm::time_limits::kStep;
  };

  /// The description of a broadcast; it travels as it is. `signal` is the place of a ControlWord in the same region.
  struct Order {
    std::uint64_t number;  ///< among the broadcasts of the sender, from 1
    std::uint64_t region;  ///< its place in the list of regions
    std::uint64_t offset;
    std::uint64_t bytes;
    std::uint64_t signal;
    std::uint64_t value;
  };
  static_assert(sizeof(Order) == 48 && std::has_unique_object_representations_v<Order>);

  /// Wakes a rank, so that it calls serve and go_on.
  using Ring = std::function<Outcome(Channel&, team::Rank, Deadline)>;

  /// Collective, with the same regions in the same order at all ranks.
  Spread(team::Team& team, const std::string& name, std::vector<const team::SymmetricRegion*> regions, Ring ring,
         const Options& options, const SpreadRules& rules = {});

  /// One at a time. `wanted` ascend. Spread gives the order its number.
  void begin(Order order, RemoteSpan from, const std::vector<team::Rank>& wanted);
  /// None while a receiver is to be reached, or a child may still be written to. peer_lost when the source is lost, or
  /// a receiver: then those below it were not waited for.
  std::optional<Outcome> go_on(Channel& channel);

  /// The progress of the last broadcast that was begun: a number that grows.
  [[nodiscard]] std::uint64_t progress() const;

  /// Passes on what has come here, as far as it can, and tells the program.
  void serve(Channel& channel);

 private:
  struct Child {
    team::Rank rank;
    std::uint64_t pieces = 0;  ///< that it was given
    bool in_doubt = false;     ///< it may have been given more
    bool lost = false;
  };
  /// One broadcast, at a member that gives its pieces to children.
  struct Passing {
    Order order{};
    std::vector<std::uint64_t> wanted;  ///< a bit a rank
    std::vector<Child> children;
    bool program_knows = false;
    bool over = true;  ///< of the part of a receiver
  };
  using Fetch = std::function<Outcome(LocalSpan& piece, std::uint64_t offset)>;

  void serve_sender(Channel& channel, team::Rank sender);
  [[nodiscard]] Passing receive_order(team::Rank sender, std::uint64_t number) const;
  Outcome tell(Channel& channel, team::Rank sender, Passing& passing);
  Outcome pass_on(Channel& channel, team::Rank sender, Passing& passing, std::uint64_t pieces, const Fetch& fetch);
  void give(Channel& channel, team::Rank sender, const Passing& passing, Child& child, LocalSpan piece);
  Outcome settle(Channel& channel, team::Rank sender, const Order& order, Child& child, Deadline deadline);
  [[nodiscard]] bool is_through(const Passing& passing) const;
  [[nodiscard]] std::optional<Outcome> all_reached() const;

  [[nodiscard]] std::uint64_t given_offset(team::Rank sender) const;
  [[nodiscard]] std::uint64_t reached_offset(team::Rank receiver) const;
  [[nodiscard]] std::uint64_t order_offset(team::Rank sender) const;
  [[nodiscard]] std::uint64_t wanted_bytes() const;
  [[nodiscard]] std::uint64_t pieces_of(const Order& order) const;
  [[nodiscard]] std::uint64_t bytes_of_piece(const Order& order, std::uint64_t piece) const;
  [[nodiscard]] bool exists(const Order& order) const;

  team::Team& team_;
  const SpreadRules rules_;
  const std::vector<const team::SymmetricRegion*> regions_;
  const Ring ring_;
  const Options options_;
  std::unique_ptr<team::SymmetricRegion> memory_;

  Passing sending_;
  RemoteSpan source_{};
  std::vector<std::byte> buffer_;  ///< a piece of what this rank sends
  std::vector<Passing> passing_;   ///< by sender
};

}  // namespace farside::comm
