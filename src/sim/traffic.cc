#include "sim/traffic.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace farside::sim {

Traffic::Port Traffic::add_port(double bytes_per_s) {
  ports_.push_back({bytes_per_s, {}, 0});
  return static_cast<Port>(ports_.size() - 1);
}

void Traffic::move(Port from, Port to, double bytes, double most_bytes_per_s, std::function<void()> arrived) {
  if (unused_.empty()) {
    unused_.push_back(static_cast<FlowId>(flows_.size()));
    flows_.emplace_back();
  }
  const FlowId id = unused_.back();
  unused_.pop_back();
  flows_[id] = {from, to, bytes, most_bytes_per_s, 0, scheduler_.now(), {}, std::move(arrived)};
  ports_[from].flows.push_back(id);
  ports_[to].flows.push_back(id);
  share_anew(from, to);
}

// Something began or ended between the two.
void Traffic::share_anew(Port from, Port to) {
  for (const FlowId id : ports_[from].flows) update(flows_[id]);
  for (const FlowId id : ports_[to].flows) {
    Flow& flow = flows_[id];
    if (flow.from == from) continue;
    update(flow);
    plan(flow.from);
  }
  plan(from);
}

void Traffic::update(Flow& flow) {
  const double bytes_per_s = std::min({flow.most_bytes_per_s, share(flow.from), share(flow.to)});
  if (bytes_per_s == flow.bytes_per_s) return;
  const Time now = scheduler_.now();
  flow.bytes_left -= flow.bytes_per_s * static_cast<double>((now - flow.since).count()) / 1e9;
  flow.since = now;
  flow.bytes_per_s = bytes_per_s;
  const double nanoseconds = std::max(flow.bytes_left, 0.0) / bytes_per_s * 1e9;
  flow.end = now + Duration(static_cast<std::int64_t>(std::ceil(nanoseconds)));
}

void Traffic::plan(Port from) {
  PortState& port = ports_[from];
  const std::uint64_t plan = ++port.plan;
  if (port.flows.empty()) return;
  Time next = flows_[port.flows.front()].end;
  for (const FlowId id : port.flows) next = std::min(next, flows_[id].end);
  scheduler_.after(next - scheduler_.now(), [this, from, plan] {
    if (ports_[from].plan == plan) end_due(from);
  });
}

void Traffic::end_due(Port from) {
  const auto due = [this](FlowId id) { return flows_[id].end <= scheduler_.now(); };
  std::vector<FlowId> ended;
  std::ranges::copy_if(ports_[from].flows, std::back_inserter(ended), due);
  for (const FlowId id : ended) remove(id);
}

void Traffic::remove(FlowId id) {
  const auto [from, to] = std::pair(flows_[id].from, flows_[id].to);
  std::erase(ports_[from].flows, id);
  std::erase(ports_[to].flows, id);
  const auto arrived = std::move(flows_[id].arrived);
  unused_.push_back(id);
  share_anew(from, to);
  arrived();
}

double Traffic::share(Port port) const {
  return ports_[port].bytes_per_s / static_cast<double>(ports_[port].flows.size());
}

}  // namespace farside::sim
