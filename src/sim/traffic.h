// traffic.h — bulk transfers that share what they go through.
//
// A flow leaves by one port and arrives by another. Its rate is the least of its own limit and of an equal share of
// each of its two ports; it changes whenever a flow begins or ends at one of them. What one flow leaves of its share,
// because it is held up elsewhere, is not given to the others: an estimate on the low side.
//
// One event a flow, or a few: it does not matter how many bytes it has.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "sim/scheduler.h"

namespace farside::sim {

class Traffic {
 public:
  using Port = std::uint32_t;

  explicit Traffic(Scheduler& scheduler) : scheduler_(scheduler) {}

  /// A way in or a way out, not both.
  [[nodiscard]] Port add_port(double bytes_per_s);

  /// Calls `arrived` when `bytes` have gone from one port to the other.
  void move(Port from, Port to, double bytes, double most_bytes_per_s, std::function<void()> arrived);

 private:
  using FlowId = std::uint32_t;
  struct Flow {
    Port from;
    Port to;
    double bytes_left;  // at `since`
    double most_bytes_per_s;
    double bytes_per_s;
    Time since;
    Time end;
    std::function<void()> arrived;
  };
  struct PortState {
    double bytes_per_s;
    std::vector<FlowId> flows;
    std::uint64_t plan;  // the event that looks for its next flow's end; older ones find another number
  };

  void share_anew(Port from, Port to);
  void update(Flow& flow);
  void plan(Port from);
  void end_due(Port from);
  void remove(FlowId id);
  [[nodiscard]] double share(Port port) const;

  Scheduler& scheduler_;
  std::vector<PortState> ports_;
  std::vector<Flow> flows_;
  std::vector<FlowId> unused_;
};

}  // namespace farside::sim
