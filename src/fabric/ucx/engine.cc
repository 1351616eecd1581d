#include "fabric/ucx/engine.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <unordered_set>
#include <utility>

#include "farside/base/error.h"
#include "farside/base/log.h"
#include "farside/base/units.h"

#include "base/assert.h"
#include "base/random_bits.h"
#include "fabric/clock.h"
#include "fabric/time_limits.h"

namespace farside {

namespace {

using namespace std::chrono_literals;

// Requests come in trains. Between two of one train the service thread stays awake, which spares the caller the time
// of waking it.
constexpr Duration kLinger = 50us;

// The most work of the service thread before it lets other threads use the worker.
constexpr unsigned kRoundsATurn = 64;
constexpr unsigned kEndpointsATurn = 32;

// The most channels of peers whose endpoints are counted.
constexpr std::size_t kMaxWorkers = 65'536;

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

// ---- Lines

/// An endpoint of the service worker: a lifeline, which we opened to the service worker of a peer and whose failure is
/// the peer's end, or a guest, which a channel of a peer opened to us.
struct UcxEngine::Line {
  Line(UcxEngine& owner, std::shared_ptr<UcxPeer> lifeline)
      : engine(owner), identity(lifeline->identity), lifeline_of(std::move(lifeline)) {}
  Line(UcxEngine& owner, const UcxGreeting& greeting)
      : engine(owner),
        identity(greeting.identity),
        channel(greeting.channel),
        worker(greeting.worker),
        answer{greeting.link, 0} {}

  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  ~Line() NO_THREAD_SAFETY_ANALYSIS { engine.target_.forget(endpoint.get()); }  // under the mutex, or in its destructor

  [[nodiscard]] bool is_guest_of(const UcxGreeting& greeting) const {
    return lifeline_of == nullptr && identity == greeting.identity && channel == greeting.channel;
  }

  UcxEngine& engine;
  const UcxIdentity identity;
  const std::shared_ptr<UcxPeer> lifeline_of;  // null for a guest
  const std::uint64_t channel = 0;             // of the peer, that a guest is from
  const std::string worker;                    // of that channel: its address
  UcxAnswer answer{};                          // to the guest; lives while it is under way
  UcxEndpoint endpoint;
  bool failed = false;
};

// Called by UCX within progress, under the mutex.
void UcxEngine::on_line_error(void* line, ucp_ep_h /*endpoint*/, ucs_status_t /*status*/) NO_THREAD_SAFETY_ANALYSIS {
  Line& failed = *static_cast<Line*>(line);
  failed.failed = true;
  failed.engine.line_failed_ = true;
}

// The same.
void UcxEngine::fail_line(ucp_ep_h endpoint) NO_THREAD_SAFETY_ANALYSIS {
  const auto line = std::ranges::find(lines_, endpoint, [](const Line& each) { return each.endpoint.get(); });
  if (line != lines_.end()) line->failed = line_failed_ = true;
}

bool UcxEngine::drop_failed_lines() {
  if (!std::exchange(line_failed_, false)) return false;
  bool lost = false;
  lines_.remove_if([&](const Line& line) {
    if (line.failed && line.lifeline_of != nullptr) lost |= !line.lifeline_of->lost.exchange(true);
    return line.failed;
  });
  return lost;
}

// The same.
ucs_status_t UcxEngine::on_greeting(void* engine, const void* /*header*/, std::size_t /*header_bytes*/, void* message,
                                    std::size_t bytes, const ucp_am_recv_param_t* params) NO_THREAD_SAFETY_ANALYSIS {
  UcxEngine& self = *static_cast<UcxEngine*>(engine);
  if (!arrived_whole(*params)) return UCS_OK;
  try {
    self.take_greeting({static_cast<const char*>(message), bytes});
  } catch (const std::bad_alloc&) {
    self.report_dropped_greeting();
  }
  return UCS_OK;
}

void UcxEngine::take_greeting(std::string_view greeting) try {
  greetings_.push_back(UcxGreeting::decode(greeting, self_.secret, self_.identity));
} catch (const Error& error) {
  log_.warn(error.what());
}

void UcxEngine::report_dropped_greeting() noexcept try {
  log_.warn("no memory for a peer's greeting: its link stays unanswered");
} catch (const std::bad_alloc&) {  // nor for the line
}

bool UcxEngine::answer_greetings() {
  if (greetings_.empty()) return false;
  unsigned left = kEndpointsATurn;
  while (!greetings_.empty() && left > 0) {
    try {
      if (!answer_greeting(greetings_.front(), left)) break;
    } catch (const std::bad_alloc&) {
      report_dropped_greeting();
    }
    greetings_.pop_front();
  }
  return true;
}

// UCX makes a pair of the nth endpoint from one worker to another and the nth one back. Those whose greeting never came
// get their other end too, and lose it at once.
bool UcxEngine::answer_greeting(const UcxGreeting& greeting, unsigned& left) {
  if (!endpoints_opened_.contains(greeting.worker) && !has_room_for_worker()) {
    log_.warn("too many channels of peers are connected through UCX; a further one stays unanswered");
    return true;
  }
  std::uint64_t& opened = endpoints_opened_[greeting.worker];
  // Nothing is done for a number that cannot be: what this channel has connected before stays.
  const bool is_plausible = greeting.nth > opened && greeting.nth - opened <= kMaxMissedGreetings + 1;
  if (!is_plausible) {
    log_.warn("a peer's UCX connection could not be told from others of its worker; it stays unwelcome");
    return true;
  }
  for (; opened + 1 < greeting.nth && left > 0; ++opened, --left) {
    const UcxEndpoint missed(
        worker_, greeting.worker, [](void*, ucp_ep_h, ucs_status_t) {}, nullptr);
  }
  if (opened + 1 < greeting.nth || left == 0) return false;
  --left;
  receive(greeting, opened);
  return true;
}

// A worker that was forgotten counts on where it was, so its next links fail until it is given up for a new one.
bool UcxEngine::has_room_for_worker() {
  if (endpoints_opened_.size() < kMaxWorkers) return true;
  std::unordered_set<std::string_view> connected;
  for (const Line& line : lines_) connected.insert(line.worker);
  std::erase_if(endpoints_opened_, [&](const auto& entry) { return !connected.contains(entry.first); });
  return endpoints_opened_.size() < kMaxWorkers;
}

void UcxEngine::receive(const UcxGreeting& greeting, std::uint64_t& opened) {
  // A channel has one link to us at a time. UCX does not say when it closed the one before.
  lines_.remove_if([&](const Line& line) { return line.is_guest_of(greeting); });
  std::list<Line> made;  // goes, with its endpoint, where memory is lacking
  Line& line = made.emplace_back(*this, greeting);
  ++opened;
  assert_that(opened == greeting.nth, "a greeting is answered by the endpoint of the same number");
  line.endpoint = UcxEndpoint(worker_, greeting.worker, &on_line_error, &line);
  if (!line.endpoint) return log_.warn("cannot answer a peer through UCX: " + line.endpoint.why_not());
  const bool welcome = !revoked_.contains(greeting.identity);
  if (welcome) target_.admit(line.endpoint.get());
  lines_.splice(lines_.end(), made);
  answer(line, welcome);
}

void UcxEngine::answer(Line& line, bool welcome) {
  assert_that(line.endpoint && line.lifeline_of == nullptr, "a guest is answered by its own endpoint");
  line.answer.welcome = welcome ? 1 : 0;
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  params.flags = UCP_AM_SEND_FLAG_EAGER | UCP_AM_SEND_FLAG_REPLY;  // has UCX tell each end the other's name
  const ucs_status_ptr_t request =
      ucp_am_send_nbx(line.endpoint.get(), kAnswerMessage, nullptr, 0, &line.answer, sizeof line.answer, &params);
  if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
}

// ---- The engine

UcxEngine::UcxEngine(std::function<void()> on_event, const HostFabricOptions& options)
    : on_event_(std::move(on_event)),
      context_(options.expected_peers, options.network),
      self_{random_bits<UcxIdentity>(), options.secret},
      target_([this](ucp_ep_h endpoint) { fail_line(endpoint); }),
      worker_(context_, UCS_THREAD_MODE_SERIALIZED) {
  if (options.warn_of_all_interfaces) context_.warn_unless_limited();
  worker_.on_message(kGreetingMessage, &on_greeting, this);
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
    moved |= answer_greetings();
    lost = drop_failed_lines();
    // UCX says of nothing that it stores by itself to which memory that was, or that it was.
    may_be_stored = target_.take_stored() || (moved && !context_.in_order());
  }
  if (lost) channels_.alarm();
  if (lost || may_be_stored) on_event_();
  return lost || moved;
}

}  // namespace farside
