#include "sim/sim_fabric.h"

#include <algorithm>
#include <charconv>

#include "farside/base/error.h"

#include "base/backoff.h"
#include "sim/sim_channel.h"
#include "sim/timed_channel.h"

namespace farside::sim {

namespace {

// A waiter looks for itself at what no signal announces: at random, or as rarely as on the host fabric.
constexpr Duration kLook = std::chrono::microseconds(20);
constexpr Duration kFirstSleep = std::chrono::microseconds(50);
constexpr Duration kMaxSleep = std::chrono::milliseconds(100);
constexpr std::uint64_t kRevokeLateOneIn = 8;  // halves of slow revocations

class SimRegion final : public Region {
 public:
  SimRegion(std::string name, std::uint64_t bytes, std::string handle, std::shared_ptr<SimMemory> memory)
      : Region(std::move(name), memory->base(), bytes, memory.get()),
        handle_(std::move(handle)),
        memory_(std::move(memory)) {}
  ~SimRegion() override { memory_->free(); }
  [[nodiscard]] std::string handle() const override { return handle_ + "/" + std::to_string(bytes()); }
  void wake() const override { memory_->wake_sleepers(); }
  [[nodiscard]] const std::shared_ptr<SimMemory>& memory() const noexcept { return memory_; }

 private:
  std::string handle_;
  std::shared_ptr<SimMemory> memory_;
};

// Clocks of real machines differ by parts in a million. Here they differ by up to a tenth, and by up to an hour.
constexpr std::int64_t kParts = 1000;
constexpr std::uint64_t kMaxBadParts = 100;
constexpr Duration kMaxAhead = std::chrono::hours(1);

}  // namespace

SimFabric::SimFabric(Wires& wires, ProcessId process) : wires_(wires), process_(process) {
  if (!wires.network().clocks_drift) return;
  Scheduler& scheduler = wires.scheduler();
  parts_slow_ =
      static_cast<std::int64_t>(scheduler.random() % (2 * kMaxBadParts + 1)) - static_cast<std::int64_t>(kMaxBadParts);
  ahead_ = scheduler.up_to(kMaxAhead);
}

SimFabric::~SimFabric() {
  while (!channels_.empty()) delete *channels_.begin();
}

Time SimFabric::now() const {
  const Time moment = suspended_since_.value_or(wires_.scheduler().now());
  return Time{(moment + -suspended_).nanoseconds * (kParts - parts_slow_) / kParts} + ahead_;
}

// Rounded up, so that a thread that wakes then finds that the time has come.
Time SimFabric::moment_of(Time time) const {
  const std::int64_t passed_here = time.nanoseconds - ahead_.count();
  const std::int64_t rate = kParts - parts_slow_;
  return Time{(passed_here * kParts + rate - 1) / rate} + suspended_;
}

// A suspension moves all later moments.
void SimFabric::sleep(Duration duration) {
  const Time end = now() + duration;
  do wires_.scheduler().sleep_until(moment_of(end));
  while (now() < end);
}

void SimFabric::suspend() {
  if (!suspended_since_) suspended_since_ = wires_.scheduler().now();
}

void SimFabric::wake_up() {
  if (suspended_since_) suspended_ += wires_.scheduler().now() - *suspended_since_;
  suspended_since_.reset();
}

std::unique_ptr<Region> SimFabric::create_region(std::string name, std::uint64_t bytes) {
  auto [handle, memory] = wires_.offer(process_, name, bytes);
  own_.push_back(memory);
  return std::make_unique<SimRegion>(std::move(name), bytes, std::move(handle), std::move(memory));
}

void SimFabric::connect(PeerId peer, std::string_view address) {
  ProcessId process = 0;
  std::from_chars(address.data(), address.data() + address.size(), process);
  if (!wires_.network().revoking_lasts) wires_.give_access(process_, process);
  processes_[peer] = process;
  ++connections_[peer];
  lost_.erase(peer);
  broken_.erase(peer);
}

void SimFabric::break_connection(PeerId peer) {
  if (!lost_.insert(peer).second) return;
  broken_.insert(peer);
  wires_.break_connection(process_, life_of(peer));
}

std::unique_ptr<RemoteRegion> SimFabric::attach(PeerId peer, std::string_view handle) {
  const std::size_t end = handle.rfind('/');
  auto memory = wires_.find(handle.substr(0, end));
  if (memory == nullptr) throw Error({"attach region", std::string(handle), "no process offers it", ""});
  std::uint64_t bytes = 0;
  std::from_chars(handle.data() + end + 1, handle.data() + handle.size(), bytes);
  return std::make_unique<RemoteRegion>(std::string(handle), peer, bytes, nullptr,
                                        std::make_unique<SimAccess>(std::move(memory)));
}

std::unique_ptr<Channel> SimFabric::open_channel() {
  if (wires_.timing() != nullptr) return std::make_unique<TimedChannel>(*this);
  return std::make_unique<SimChannel>(*this);
}

Outcome SimFabric::watch(const Region& region, std::uint64_t offset, std::uint64_t seen, Deadline deadline,
                         std::span<const PeerId> peers, std::uint64_t lives) {
  const LocalWord<ControlWord> word = region.word<ControlWord>(offset);
  SimMemory& memory = *static_cast<const SimRegion&>(region).memory();
  const CountedCall call(wires_.fault_count(), "wait " + region.name(),
                         {Fault::timed_out, Fault::target_died, Fault::signal_missed});
  Backoff<Duration> pauses(kFirstSleep, kMaxSleep);
  Time look{};  // at what no signal announced
  while (word.load() == seen) {
    if (lives_of(peers) != lives || std::ranges::any_of(peers, [this](PeerId peer) { return lost(peer); })) {
      call.meets(Fault::target_died);
      return Outcome::peer_lost;
    }
    if (now() >= deadline.at) {
      call.meets(Fault::timed_out);
      return Outcome::timed_out;
    }
    if (!wires_.network().misses_plain_writes) {
      sleep(wires_.scheduler().up_to(kLook));
      continue;
    }
    look = now() + pauses.next();
    memory.sleep_until(std::min(moment_of(deadline.at), moment_of(look)));
  }
  if (look != Time{} && now() >= look) call.meets(Fault::signal_missed);
  return Outcome::done;
}

std::uint64_t SimFabric::lives_of(std::span<const PeerId> peers) const {
  std::uint64_t sum = 0;
  for (const PeerId peer : peers) sum += life_of(peer);
  return sum;
}

PeerLife SimFabric::life(PeerId peer) const {
  const auto found = connections_.find(peer);
  return found == connections_.end() ? 0 : found->second;
}

void SimFabric::set_lost(PeerId peer) {
  lost_.insert(peer);
  broken_.erase(peer);
}

// The waits on one that lives end now; what they waited for may land all the same. Those on a dead one end by
// themselves, after a while.
void SimFabric::mark_lost(PeerId peer, PeerLife life) {
  if (life != this->life(peer)) return;
  set_lost(peer);
  if (wires_.scheduler().dead(life_of(peer))) return;
  for (SimChannel* const channel : channels_) channel->lose(peer);
}

Outcome SimFabric::revoke(PeerId peer, PeerLife life, Deadline deadline) {
  Scheduler& scheduler = wires_.scheduler();
  const bool is_slow = wires_.network().revokes_slowly && scheduler.in_thread();
  const CountedCall call(wires_.fault_count(), "revoke", {Fault::timed_out});
  const auto times_out = [&] {
    if (!is_slow) return false;
    const Duration left = deadline.at - now();
    const bool is_late = scheduler.one_in(kRevokeLateOneIn) && !wires_.healed();
    sleep(is_late ? left : std::min(left, scheduler.up_to(wires_.network().long_latency)));
    if (now() < deadline.at) return false;
    call.meets(Fault::timed_out);
    return true;
  };
  if (times_out()) return Outcome::timed_out;
  if (life != this->life(peer)) return Outcome::done;
  if (wires_.network().revoking_kills) wires_.kill(processes_.at(peer));
  wires_.take_access(processes_.at(peer), process_);
  if (times_out()) return Outcome::timed_out;
  set_lost(peer);
  return Outcome::done;
}

void SimFabric::begins(const Operation* operation) {
  if (!hook_) return;
  hook_(operation);
  sleep({});
}

void SimFabric::drain_own_stores() const {
  for (const auto& memory : own_) memory->drain();
}

}  // namespace farside::sim
