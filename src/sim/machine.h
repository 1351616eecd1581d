// machine.h — how fast a simulated cluster is: its network, its file system, its memory.
//
// Guarantee: nothing but these numbers, the program and the seed decides how long a performance run takes.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "farside/fabric/time.h"

namespace farside::sim {

struct NetworkSpeed {
  Duration overhead;        ///< of the poster's processor, for each operation
  Duration round_trip;      ///< of an operation without data and contention
  Duration nic_operation;   ///< how long the target's NIC is busy with an operation, beyond its bytes
  double link_bytes_per_s;  ///< the most that one transfer gets
  double nic_bytes_per_s;   ///< the most that all transfers into a node, or out of it, get together
};

struct FileSystemSpeed {
  std::uint32_t servers;  ///< a file's stripes are dealt to them in turn
  std::uint64_t stripe_bytes;
  double server_bytes_per_s;  ///< of each, shared by all its readers
  double client_bytes_per_s;  ///< the most that one reader gets
  Duration latency;           ///< of a request without data and contention
  Duration server_request;    ///< how long a server is busy with a request, beyond its bytes
};

struct Machine {
  std::string_view name;
  NetworkSpeed network;
  FileSystemSpeed files;
  double copy_bytes_per_s;  ///< of a program that takes its bytes out of its node's memory
};

/// Those that are modelled, by name:
///   tofu      the K computer and the FX10: Tofu, four interfaces a node, and a share of the local file system as large
///             as that of a job of 128 nodes
///   roce-100  one 100 Gb/s RoCE port a node, before a file system of 20 GB/s
///   tcp       10 Gb/s Ethernet and TCP, before one file server
///   compas    PCs of 1998 with Myrinet, on which NICAM was built
[[nodiscard]] std::span<const Machine> machines();

/// How long so many bytes take at that speed.
[[nodiscard]] inline Duration time_for(std::uint64_t bytes, double bytes_per_s) {
  return Duration(static_cast<std::int64_t>(static_cast<double>(bytes) / bytes_per_s * 1e9));
}

}  // namespace farside::sim
