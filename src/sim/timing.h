// timing.h — how long operations take on a machine on which other processes compete.
//
// A small operation is one packet: it slips in between the packets of others, and queues for the target's NIC with its
// own kind. A bulk transfer shares both ends' NICs with the other bulk transfers (traffic.h). The way between the NICs
// is not modelled, so links are not shared.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "sim/machine.h"
#include "sim/scheduler.h"
#include "sim/traffic.h"

namespace farside::sim {

/// The load of a process's NIC, or of a file server, by the requests of others.
struct Served {
  std::uint64_t operations = 0;
  std::uint64_t bulk_bytes = 0;
  Duration queued{};  ///< how long operations waited for their turn, in sum; bulk transfers share and so do not wait
};

class Timing {
 public:
  Timing(Scheduler& scheduler, const Machine& machine, ProcessId processes);

  /// From here on, a transfer is bulk.
  static constexpr std::uint64_t kBulkBytes = 8192;

  struct Trip {
    ProcessId poster;
    ProcessId target;
    std::uint64_t bytes;
    bool outward;  ///< the bytes go to the target, as in a WRITE
  };
  /// Calls `arrived` when an operation that is posted in `delay` from now has come back.
  void operate(const Trip& trip, Duration delay, std::function<void()> arrived);

  /// Calls `arrived` when the bytes from `offset` on have come from the file's server. Not across stripes.
  void read_file(ProcessId reader, std::uint64_t offset, std::uint64_t bytes, std::function<void()> arrived);

  [[nodiscard]] const Machine& machine() const noexcept { return machine_; }
  [[nodiscard]] const Served& served_by(ProcessId process) const { return nics_[process].served; }
  [[nodiscard]] Served served_by_files() const;

 private:
  /// Takes one request at a time.
  struct Station {
    Time free{};
    Served served;
  };
  struct Nic : Station {
    Traffic::Port out;
    Traffic::Port in;
  };
  struct FileServer : Station {
    Traffic::Port out;
  };

  /// How long until a request that comes to `station` in `delay` has been dealt with.
  [[nodiscard]] Duration queue(Station& station, Duration delay, Duration busy) const;

  Scheduler& scheduler_;
  const Machine machine_;
  Traffic traffic_;
  std::vector<Nic> nics_;
  std::vector<FileServer> servers_;
};

}  // namespace farside::sim
