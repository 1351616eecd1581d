#include "fabric/ucx/engine.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <utility>

#include "farside/base/error.h"
#include "farside/base/log.h"
#include "farside/base/units.h"

#include "base/assert.h"
#include "base/random_bits.h"
#include "fabric/clock.h"
#include "fabric/time_limits.h"
#include "fabric/ucx/line.h"

namespace farside {

namespace {

using namespace std::chrono_literals;

// Requests come in trains. Between two of one train the service thread stays awake, which spares the caller the time
// of waking it.
constexpr Duration kLinger = 50us;

// The most work of the service thread before it lets other threads use the worker.
constexpr unsigned kRoundsATurn = 64;

}  // namespace

// ---- Memory

UcxMemory::UcxMemory(const UcxContext& context, std::byte* base, std::uint64_t bytes) {
  const auto check = [&](ucs_status_t status, const char* tried) {
    if (status == UCS_OK) return;
    throw Error({tried, format_bytes(bytes) + " of memory", ucs_status_string(status), "check ulimit -l"});
  };
  ucp_mem_map_params_t params{};
  params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
  params.address = base;
  params.length = bytes;
  ucp_mem_h memory = nullptr;
  check(ucp_mem_map(context.get(), &params, &memory), "register with UCX");
  memory_ = {memory, Unmap{context.get()}};

  void* key = nullptr;
  std::size_t key_bytes = 0;
  check(ucp_rkey_pack(context.get(), memory, &key, &key_bytes), "make a remote key of UCX for");
  const UcxRemoteMemory remote{reinterpret_cast<std::uintptr_t>(base), {static_cast<const char*>(key), key_bytes}};
  ucp_rkey_buffer_release(key);
  handle_ = remote.encode();
}

// ---- The engine

UcxEngine::UcxEngine(std::function<void()> on_event, const HostFabricOptions& options)
    : on_event_(std::move(on_event)),
      context_(options.expected_peers, options.network),
      self_{random_bits<UcxIdentity>(), options.secret},
      target_([this](ucp_ep_h endpoint) { fail_line(endpoint); }),
      worker_(context_, UCS_THREAD_MODE_SERIALIZED) {
  if (options.warn_of_all_interfaces) context_.warn_unless_limited();
  worker_.on_message(kHelloMessage, &on_hello, this);
  target_.serve(worker_);
  service_ = std::jthread([this](const std::stop_token& stop) { serve(stop); });
}

UcxEngine::~UcxEngine() { stop_answering(); }

void UcxEngine::stop_answering() noexcept {
  if (!service_.joinable()) return;
  service_.request_stop();
  worker_.signal();
  service_.join();
  const MutexLock held(mutex_);
  target_.forget_all();  // to revoke peers makes the worker progress
}

void UcxEngine::lock() const {
  ++waiting_;
  mutex_.lock();
  --waiting_;
}

// Clang does not follow a mutex through a loop.
bool UcxEngine::lock_by(Deadline deadline) const NO_THREAD_SAFETY_ANALYSIS {
  ++waiting_;
  bool held = mutex_.try_lock();
  for (; !held && monotonic_now() < deadline.at; held = mutex_.try_lock()) std::this_thread::sleep_for(50us);
  --waiting_;
  return held;
}

std::string UcxEngine::address() const {
  lock();
  const MutexLock held(mutex_, std::adopt_lock);
  return UcxAddress{self_.identity, worker_.address()}.encode();
}

void UcxEngine::connect(PeerId number, std::string_view address) {
  const UcxAddress whose = UcxAddress::decode(address);
  const std::shared_ptr<UcxPeer> made(new UcxPeer{number, whose.identity, whose.worker});
  bool replaced = false;
  {
    lock();
    const MutexLock held(mutex_, std::adopt_lock);
    if (made->identity != self_.identity) {
      Line& line = lines_.emplace_back(*this, made);
      line.endpoint = UcxEndpoint(worker_, made->service_address, &on_line_error, &line);
      if (!line.endpoint) {
        const std::string why = line.endpoint.why_not();
        lines_.pop_back();
        throw Error({"connect to peer", std::to_string(number), "no transport of UCX reaches its address: " + why,
                     "let UCX_NET_DEVICES and UCX_TLS of both processes name devices of one network"});
      }
    }
    revoked_.erase(made->identity);
    std::shared_ptr<UcxPeer> old;
    {
      const MutexLock tables(tables_mutex_);
      old = std::exchange(peers_[number], made);
    }
    if (old != nullptr) {
      replaced = !old->lost.exchange(true);
      lines_.remove_if([&](const Line& line) { return line.lifeline_of == old; });
    }
  }
  worker_.signal();  // the service thread sleeps armed for what was there before
  if (replaced) spread_loss();
}

std::unique_ptr<UcxMemory> UcxEngine::offer(std::byte* base, std::uint64_t bytes) {
  return std::make_unique<UcxMemory>(context_, base, bytes);
}

void UcxEngine::retire(Mapping mapping) noexcept {
  // Kept as it is, it costs memory and does no harm.
  if (!mapping.blank()) log::warn(std::string("a freed region keeps its memory: ") + std::strerror(errno));
  const MutexLock lock(tables_mutex_);
  retired_.push_back(std::move(mapping));
}

std::unique_ptr<RemoteAccess> UcxEngine::attach(std::shared_ptr<UcxPeer> peer, std::string_view handle) {
  auto memory = std::make_shared<const UcxRemoteMemory>(UcxRemoteMemory::decode(handle));
  return std::make_unique<UcxAccess>(std::move(peer), std::move(memory));
}

std::unique_ptr<UcxChannel> UcxEngine::open_channel() {
  return std::make_unique<UcxChannel>(context_, self_, channels_);
}

std::shared_ptr<UcxPeer> UcxEngine::peer(PeerId number) const {
  const MutexLock lock(tables_mutex_);
  const auto found = peers_.find(number);
  if (found == peers_.end()) throw Error({"reach peer", std::to_string(number), "it was never connected", ""});
  return found->second;
}

void UcxEngine::mark_lost(PeerId number) { lose(peer(number)); }

void UcxEngine::lose(const std::shared_ptr<UcxPeer>& dead) {
  dead->lost = true;
  // Over verbs, UCX 1.13 aborts the process when it finds out by itself that a peer it still connects to is gone.
  if (!context_.in_order()) {
    lock();
    const MutexLock held(mutex_, std::adopt_lock);
    lines_.remove_if([&](const Line& line) { return line.lifeline_of == dead; });
  }
  spread_loss();
}

bool UcxEngine::lost(PeerId number) const { return peer(number)->lost; }

Outcome UcxEngine::revoke(const std::shared_ptr<UcxPeer>& peer, Deadline deadline) {
  lose(peer);
  const UcxIdentity revoked = peer->identity;
  if (!lock_by(deadline)) return Outcome::timed_out;
  const MutexLock held(mutex_, std::adopt_lock);
  revoked_.insert(revoked);
  lines_.remove_if([&](Line& line) REQUIRES(mutex_) {
    if (line.identity == revoked && line.lifeline_of == nullptr) answer(line, false);
    return line.identity == revoked;
  });
  worker_.signal();
  // Emulated operations name the endpoint they came by, and UCX drops those of a closed one. A NIC goes on until its
  // queue pair is gone, which the worker's flush waits for.
  return context_.in_order() || await_flush(deadline) ? Outcome::done : Outcome::timed_out;
}

// Lets others at the worker between any two looks.
bool UcxEngine::await_flush(Deadline deadline) {
  ucp_request_param_t params{};
  const ucs_status_ptr_t request = ucp_worker_flush_nbx(worker_.get(), &params);
  if (!UCS_PTR_IS_PTR(request)) return true;
  while (ucp_request_check_status(request) == UCS_INPROGRESS && monotonic_now() < deadline.at) {
    const bool moved = worker_.progress();
    has_progressed_ |= moved;
    mutex_.unlock();
    if (!moved) std::this_thread::sleep_for(100us);
    lock();
  }
  const bool closed = ucp_request_check_status(request) != UCS_INPROGRESS;
  ucp_request_free(request);
  return closed;
}

void UcxEngine::spread_loss() {
  channels_.alarm();
  on_event_();
}

// ---- The service thread

void UcxEngine::serve(const std::stop_token& stop) {
  Time awake_until{};
  while (!stop.stop_requested()) {
    if (turn()) {
      awake_until = monotonic_now() + kLinger;
      continue;
    }
    if (monotonic_now() < awake_until) {
      std::this_thread::yield();
      continue;
    }
    bool armed = false;
    {
      const MutexLock held(mutex_);
      armed = worker_.arm();
    }
    if (armed && !turn()) worker_.sleep({monotonic_now() + fabric::time_limits::kLongSleep});
  }
}

bool UcxEngine::turn() {
  constexpr unsigned kMaxYields = 1000;
  for (unsigned yield = 0; waiting_ != 0 && yield < kMaxYields; ++yield) std::this_thread::yield();
  bool moved = false;
  bool lost = false;
  bool may_be_stored = false;
  {
    const MutexLock held(mutex_);
    moved = std::exchange(has_progressed_, false);
    for (unsigned round = 0; round < kRoundsATurn && worker_.progress(); ++round) moved = true;
    moved |= target_.go_on();
    moved |= answer_hellos();
    lost = drop_failed_lines();
    // UCX says of nothing that it stores by itself to which memory that was, or that it was.
    may_be_stored = target_.take_stored() || (moved && !context_.in_order());
  }
  if (lost) channels_.alarm();
  if (lost || may_be_stored) on_event_();
  return lost || moved;
}

}  // namespace farside
