#include "fabric/host/host_fabric.h"

#include <cstdlib>
#include <random>
#include <thread>

#include "farside/base/error.h"

#include "fabric/clock.h"
#include "fabric/host/host_channel.h"

namespace farside {

namespace {

std::uint64_t random_seed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

}  // namespace

HostFabric::HostFabric(HostFabricOptions options)
    : options_(options),
      self_{.process = this_process(), .host = host_identity(), .ucx = {}},
      random_state_(random_seed()) {
  if (options_.mode == FabricMode::ucx || options_.remote_peers) {
    throw Error({"start", "UCX", "this build of farside has no UCX engine", "use FARSIDE_FABRIC=direct"});
  }
}

std::unique_ptr<Region> HostFabric::create_region(std::string name, std::uint64_t bytes) {
  return HostRegion::create(std::move(name), bytes, regions_);
}

std::string HostFabric::address() { return self_.encode(); }

void HostFabric::connect(PeerId peer, std::string_view address) {
  const ProcessAddress other = ProcessAddress::decode(address);
  if (other.host != self_.host) {
    throw Error({"connect", "peer " + std::to_string(peer),
                 "it is on another host, or runs as another user (it is on \"" + other.host + "\", this process on \"" +
                     self_.host + "\")",
                 "unset FARSIDE_FABRIC and start every process with remote peers allowed"});
  }
  const std::lock_guard lock(mutex_);
  peers_.connect(peer, PeerTable::Way::direct);
  processes_[peer] = other.process;
}

std::unique_ptr<RemoteRegion> HostFabric::attach(PeerId peer, std::string_view handle) {
  const RegionHandle region = RegionHandle::decode(handle);
  auto access = std::make_unique<DirectAccess>(process_of(peer), region, peers_.word(peer));
  std::byte* const mapped = access->user_bytes();
  return std::make_unique<RemoteRegion>(region.name, peer, region.bytes, mapped, std::move(access));
}

std::unique_ptr<Channel> HostFabric::open_channel() { return std::make_unique<HostChannel>(peers_); }

void HostFabric::mark_lost(PeerId peer) {
  peers_.mark_lost(peer);
  regions_.wake_all();
}

Outcome HostFabric::revoke(PeerId peer, Deadline deadline) {
  const ProcessId process = process_of(peer);
  if (process == self_.process) {
    throw Error({"revoke the access of", "peer " + std::to_string(peer), "it is this process", ""});
  }
  mark_lost(peer);
  return kill_and_wait(process, deadline);
}

Time HostFabric::now() const { return monotonic_now(); }

void HostFabric::sleep(Duration duration) { std::this_thread::sleep_for(duration); }

std::uint64_t HostFabric::random() {
  // SplitMix64: a counter by the golden ratio, its bits mixed; any thread may take the next one.
  std::uint64_t bits = random_state_.fetch_add(0x9e3779b97f4a7c15, std::memory_order_relaxed);
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  return bits ^ (bits >> 31);
}

ProcessId HostFabric::process_of(PeerId peer) const {
  const std::lock_guard lock(mutex_);
  const auto found = processes_.find(peer);
  if (found == processes_.end()) {
    throw Error({"reach", "peer " + std::to_string(peer), "it was never connected", "connect it first"});
  }
  return found->second;
}

FabricMode fabric_mode_from_environment() {
  const char* const value = std::getenv("FARSIDE_FABRIC");
  const std::string_view mode = value == nullptr ? "" : value;
  if (mode.empty()) return FabricMode::automatic;
  if (mode == "direct") return FabricMode::direct;
  if (mode == "ucx") return FabricMode::ucx;
  throw UsageError({"use", "FARSIDE_FABRIC=" + std::string(mode), "it is neither direct nor ucx",
                    "set it to one of them, or unset it to have it chosen for each peer"});
}

std::unique_ptr<Fabric> make_host_fabric(HostFabricOptions options) { return std::make_unique<HostFabric>(options); }

}  // namespace farside
