#include "sim/machine.h"

#include <array>

namespace farside::sim {

namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

// A link carries 5 GB/s, a put takes about 1.3 us one way, and a node has four interfaces. The K computer's local file
// system reads 3.2 TB/s for 82,944 nodes through 2,592 servers: 1.23 GB/s a server, and four of them for 128 nodes.
constexpr Machine kTofu{.name = "tofu",
                        .network = {.overhead = nanoseconds(300),
                                    .round_trip = nanoseconds(2600),
                                    .nic_operation = nanoseconds(150),
                                    .link_bytes_per_s = 5e9,
                                    .nic_bytes_per_s = 20e9},
                        .files = {.servers = 4,
                                  .stripe_bytes = 1U << 20U,
                                  .server_bytes_per_s = 1.23e9,
                                  .client_bytes_per_s = 1e9,
                                  .latency = microseconds(500),
                                  .server_request = microseconds(50)},
                        .copy_bytes_per_s = 8e9};

constexpr Machine kRoce100{.name = "roce-100",
                           .network = {.overhead = nanoseconds(200),
                                       .round_trip = nanoseconds(3500),
                                       .nic_operation = nanoseconds(50),
                                       .link_bytes_per_s = 12e9,
                                       .nic_bytes_per_s = 12e9},
                           .files = {.servers = 8,
                                     .stripe_bytes = 1U << 20U,
                                     .server_bytes_per_s = 2.5e9,
                                     .client_bytes_per_s = 2.5e9,
                                     .latency = microseconds(300),
                                     .server_request = microseconds(10)},
                           .copy_bytes_per_s = 12e9};

constexpr Machine kTcp{.name = "tcp",
                       .network = {.overhead = microseconds(5),
                                   .round_trip = microseconds(40),
                                   .nic_operation = microseconds(3),
                                   .link_bytes_per_s = 1.1e9,
                                   .nic_bytes_per_s = 1.1e9},
                       .files = {.servers = 1,
                                 .stripe_bytes = 1U << 20U,
                                 .server_bytes_per_s = 1.1e9,
                                 .client_bytes_per_s = 1.1e9,
                                 .latency = microseconds(500),
                                 .server_request = microseconds(50)},
                       .copy_bytes_per_s = 10e9};

// NICAM's cluster, by its text and figure 5: 20 us one way, 105 MB/s, 5 us a call, 88 MB/s to copy memory. Its file
// system is that of kTcp.
constexpr Machine kCompas{.name = "compas",
                          .network = {.overhead = microseconds(5),
                                      .round_trip = microseconds(40),
                                      .nic_operation = microseconds(3),
                                      .link_bytes_per_s = 105e6,
                                      .nic_bytes_per_s = 105e6},
                          .files = kTcp.files,
                          .copy_bytes_per_s = 88e6};

constexpr std::array kMachines{kTofu, kRoce100, kTcp, kCompas};

}  // namespace

std::span<const Machine> machines() { return kMachines; }

}  // namespace farside::sim
