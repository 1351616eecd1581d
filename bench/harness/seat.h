// seat.h — what a rank of a contender on farside has at hand, whatever it measures.
#pragma once

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>

#include "farside/comm/comm.h"

namespace farside::bench {

inline void check(bool done, const char* what) {
  if (!done) throw std::runtime_error(std::string(what) + " failed");
}
inline void check(const comm::Status& status, const char* what) {
  if (status.done()) return;
  const std::string whose = status.lost ? ", rank " + std::to_string(*status.lost) : "";
  throw std::runtime_error(std::string(what) + " failed: " + std::string(to_string(status.outcome)) + whose);
}
inline void check(Outcome outcome, const char* what) { check(comm::Status{outcome, {}}, what); }

struct Seat {
  /// For one wait. A batch of rounds has no deadline of its own: how long it takes depends on what else the cores run.
  [[nodiscard]] Deadline deadline() const { return team->fabric().in(std::chrono::minutes(1)); }
  [[nodiscard]] team::Rank rank() const { return team->rank(); }
  [[nodiscard]] team::Rank size() const { return team->size(); }
  /// Before memory goes: that of the others may be in use until all are done with what they have begun.
  void leave() {
    check(comm.wait(*channel, comm.issued(), deadline()), "the end");
    check(team->barrier(deadline()), "the end");
  }

  std::unique_ptr<team::Team> team = team::join_team();
  comm::Comm comm{*team};
  std::unique_ptr<Channel> channel = comm.open_channel();
};

}  // namespace farside::bench
