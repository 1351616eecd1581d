#include "sim/timing.h"

#include <algorithm>
#include <utility>

namespace farside::sim {

Timing::Timing(Scheduler& scheduler, const Machine& machine, ProcessId processes)
    : scheduler_(scheduler), machine_(machine), traffic_(scheduler), nics_(processes), servers_(machine.files.servers) {
  for (Nic& nic : nics_) {
    nic.out = traffic_.add_port(machine.network.nic_bytes_per_s);
    nic.in = traffic_.add_port(machine.network.nic_bytes_per_s);
  }
  for (FileServer& server : servers_) server.out = traffic_.add_port(machine.files.server_bytes_per_s);
}

void Timing::operate(const Trip& trip, Duration delay, std::function<void()> arrived) {
  const NetworkSpeed& speed = machine_.network;
  Nic& target = nics_[trip.target];
  const bool bulk = trip.bytes >= kBulkBytes;
  const Duration one_way = speed.round_trip / 2;
  const Duration wire = bulk ? Duration{} : time_for(trip.bytes, speed.link_bytes_per_s);
  const Duration back = queue(target, delay + one_way, speed.nic_operation) + one_way + wire;
  if (!bulk) return scheduler_.after(back, std::move(arrived));

  target.served.bulk_bytes += trip.bytes;
  const Traffic::Port from = trip.outward ? nics_[trip.poster].out : target.out;
  const Traffic::Port to = trip.outward ? target.in : nics_[trip.poster].in;
  scheduler_.after(back, [this, from, to, bytes = trip.bytes, arrived = std::move(arrived)]() mutable {
    traffic_.move(from, to, static_cast<double>(bytes), machine_.network.link_bytes_per_s, std::move(arrived));
  });
}

void Timing::read_file(ProcessId reader, std::uint64_t offset, std::uint64_t bytes, std::function<void()> arrived) {
  const FileSystemSpeed& speed = machine_.files;
  FileServer& server = servers_[offset / speed.stripe_bytes % servers_.size()];
  server.served.bulk_bytes += bytes;
  const Duration found = queue(server, speed.latency, speed.server_request);
  scheduler_.after(found, [this, &server, reader, bytes, arrived = std::move(arrived)]() mutable {
    traffic_.move(server.out, nics_[reader].in, static_cast<double>(bytes), machine_.files.client_bytes_per_s,
                  std::move(arrived));
  });
}

Duration Timing::queue(Station& station, Duration delay, Duration busy) const {
  const Time arrival = scheduler_.now() + delay;
  const Time begin = std::max(arrival, station.free);
  station.free = begin + busy;
  ++station.served.operations;
  station.served.queued += begin - arrival;
  return station.free - scheduler_.now();
}

Served Timing::served_by_files() const {
  Served all;
  for (const FileServer& server : servers_) {
    all.operations += server.served.operations;
    all.bulk_bytes += server.served.bulk_bytes;
    all.queued += server.served.queued;
  }
  return all;
}

}  // namespace farside::sim
