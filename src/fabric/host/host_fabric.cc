#include "fabric/host/host_fabric.h"

#include <cstdlib>
#include <thread>

#include "farside/base/error.h"
#include "farside/base/mix.h"

#include "base/random_bits.h"
#include "fabric/clock.h"
#include "fabric/host/host_channel.h"

namespace farside {

HostFabric::HostFabric(HostFabricOptions options)
    : options_(std::move(options)),
      self_{.process = this_process(), .host = host_identity(), .ucx = {}},
      random_state_(random_bits<std::uint64_t>()) {
  if (options_.mode == FabricMode::direct || (options_.mode == FabricMode::automatic && !options_.remote_peers)) return;
  ucx_ = std::make_unique<UcxEngine>([this] { regions_.wake_all(); }, options_);
  self_.ucx = ucx_->address();
}

std::unique_ptr<Region> HostFabric::create_region(std::string name, std::uint64_t bytes) {
  return HostRegion::create(std::move(name), bytes, regions_, ucx_.get());
}

std::string HostFabric::address() { return self_.encode(); }

void HostFabric::connect(PeerId number, std::string_view address) {
  const ProcessAddress other = ProcessAddress::decode(address);
  const PeerTable::Way way = way_to(number, other);
  const MutexLock lock(mutex_);
  if (lost(number)) peers_.mark_lost(number, peers_.life(number));  // UCX may have found out by itself
  peers_.expect_free(number);
  if (way == PeerTable::Way::ucx) ucx_->connect(number, other.ucx);
  peers_.connect(number, way);
  known_[number] = {.process = other.process,
                    .life = peers_.life(number),
                    .over_ucx = way == PeerTable::Way::ucx ? ucx_->peer(number) : nullptr,
                    .is_self = other.process == self_.process && other.host == self_.host};
}

PeerTable::Way HostFabric::way_to(PeerId number, const ProcessAddress& address) const {
  const std::string on = "peer " + std::to_string(number);
  if (address.host == self_.host && options_.mode != FabricMode::ucx) return PeerTable::Way::direct;
  if (options_.mode == FabricMode::direct) {
    throw Error({"connect", on,
                 "it is on another host, or runs as another user (it is on \"" + address.host +
                     "\", this process on \"" + self_.host + "\")",
                 "unset FARSIDE_FABRIC"});
  }
  if (ucx_ == nullptr || address.ucx.empty()) {
    throw Error({"connect", on, "it is on another host, and one of the two processes was started without UCX",
                 "let both allow remote peers, or both set FARSIDE_FABRIC=ucx"});
  }
  return PeerTable::Way::ucx;
}

std::unique_ptr<RemoteRegion> HostFabric::attach(PeerId number, std::string_view handle) {
  const RegionHandle region = RegionHandle::decode(handle);
  const Peer owner = peer(number);
  std::unique_ptr<RemoteAccess> access;
  std::byte* mapped = nullptr;
  if (owner.over_ucx != nullptr) {
    access = UcxEngine::attach(owner.over_ucx, region.ucx);
  } else {
    auto direct = std::make_unique<DirectAccess>(owner.process, region, peers_.word(number), accesses_);
    mapped = direct->user_bytes();
    access = std::move(direct);
  }
  // Asked last: the access remembers the peer's word, and must not be made from that of a lost one or of a successor.
  if (lost(number) || life(number) != owner.life) {
    throw Error({"attach region", region.name, "peer " + std::to_string(number) + " is lost", ""});
  }
  return std::make_unique<RemoteRegion>(region.name, number, region.bytes, mapped, std::move(access));
}

std::unique_ptr<Channel> HostFabric::open_channel() {
  return std::make_unique<HostChannel>(*this, peers_, ucx_ == nullptr ? nullptr : ucx_->open_channel());
}

void HostFabric::mark_lost(PeerId number, PeerLife life) {
  {
    const MutexLock lock(mutex_);  // so that connect does not begin another life in between
    if (peers_.life(number) != life) return;
    const PeerTable::Way way = peers_.way(number);
    peers_.mark_lost(number, life);
    if (way == PeerTable::Way::ucx) ucx_->mark_lost(number);
  }
  regions_.wake_all();
  accesses_.blank_lost();
}

bool HostFabric::lost(PeerId number) const {
  const PeerTable::Way way = peers_.way(number);
  return way == PeerTable::Way::lost || (way == PeerTable::Way::ucx && ucx_->lost(number));
}

Outcome HostFabric::revoke(PeerId number, PeerLife life, Deadline deadline) {
  const Peer revoked = peer(number);
  if (revoked.life != life) return Outcome::done;
  if (revoked.is_self) {
    throw Error({"revoke the access of", "peer " + std::to_string(number), "it is this process", ""});
  }
  mark_lost(number, life);
  if (revoked.over_ucx != nullptr) return ucx_->revoke(revoked.over_ucx, deadline);
  const std::string why = "as peer " + std::to_string(number) + " it has this process's memory mapped, and is revoked";
  return kill_and_wait(revoked.process, why, deadline);
}

Time HostFabric::now() const { return monotonic_now(); }

Time HostFabric::lately() const { return last_tick(); }

void HostFabric::sleep(Duration duration) { std::this_thread::sleep_for(duration); }

std::uint64_t HostFabric::random() { return mix(random_state_.fetch_add(kMixStep, std::memory_order_relaxed)); }

HostFabric::Peer HostFabric::peer(PeerId number) const {
  const MutexLock lock(mutex_);
  const auto found = known_.find(number);
  if (found == known_.end()) {
    throw Error({"reach", "peer " + std::to_string(number), "it was never connected", "connect it first"});
  }
  return found->second;
}

FabricMode fabric_mode_from_environment() {
  const char* const value = ::secure_getenv("FARSIDE_FABRIC");
  const std::string_view mode = value == nullptr ? "" : value;
  if (mode.empty()) return FabricMode::automatic;
  if (mode == "direct") return FabricMode::direct;
  if (mode == "ucx") return FabricMode::ucx;
  throw UsageError({"use", "FARSIDE_FABRIC=" + std::string(mode), "it is neither direct nor ucx",
                    "set it to one of them, or unset it to have it chosen for each peer"});
}

std::unique_ptr<Fabric> make_host_fabric(HostFabricOptions options) {
  return std::make_unique<HostFabric>(std::move(options));
}

void stop_answering(Fabric& fabric) {
  const auto* const host = dynamic_cast<HostFabric*>(&fabric);
  if (host == nullptr) throw UsageError({"end", "the answers to peers", "it is not a host fabric", ""});
  host->stop_answering();
}

}  // namespace farside
