// The same operations by UCX's own interface, on the transports that UCX_TLS names.
//
// The target makes progress all the time while operations come, and sleeps once none has come for kStayAwake. Both give
// the CPU to each other while they have nothing to do, as farside does: there may be fewer cores than processes.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <poll.h>
#include <sched.h>
#include <ucp/api/ucp.h>

#include "bench/fabric/pair.h"
#include "bench/fabric/work.h"

namespace farside::bench {
namespace {

void check(ucs_status_t status, const char* tried) {
  if (status != UCS_OK) throw std::runtime_error(std::string(tried) + ": " + ucs_status_string(status));
}

template <class Handle, void (*kDestroy)(Handle)>
struct Destroy {
  using pointer = Handle;
  void operator()(Handle handle) const { kDestroy(handle); }
};
template <class Handle, void (*kDestroy)(Handle)>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy<Handle, kDestroy>>;

using Context = Owned<ucp_context_h, ucp_cleanup>;
using Worker = Owned<ucp_worker_h, ucp_worker_destroy>;
using Endpoint = Owned<ucp_ep_h, ucp_ep_destroy>;
using RemoteKey = Owned<ucp_rkey_h, ucp_rkey_destroy>;

Context make_context() {
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_RMA | UCP_FEATURE_AMO64 | UCP_FEATURE_WAKEUP;
  ucp_context_h context = nullptr;
  check(ucp_init(&params, nullptr, &context), "ucp_init");
  return Context(context);
}

Worker make_worker(const Context& context) {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SINGLE;
  ucp_worker_h worker = nullptr;
  check(ucp_worker_create(context.get(), &params, &worker), "ucp_worker_create");
  return Worker(worker);
}

std::string address_of(const Worker& worker) {
  ucp_address_t* address = nullptr;
  std::size_t bytes = 0;
  check(ucp_worker_get_address(worker.get(), &address, &bytes), "ucp_worker_get_address");
  std::string copy(reinterpret_cast<const char*>(address), bytes);
  ucp_worker_release_address(worker.get(), address);
  return copy;
}

Endpoint connect(const Worker& worker, const std::string& address) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  ucp_ep_h endpoint = nullptr;
  check(ucp_ep_create(worker.get(), &params, &endpoint), "ucp_ep_create");
  return Endpoint(endpoint);
}

/// Memory that the initiator reaches: allocated by UCX, so that it lies in what its transports share.
class Target {
 public:
  explicit Target(const Context& context) : context_(context.get()) {
    ucp_mem_map_params_t params{};
    params.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS;
    params.length = kRegionBytes;
    params.flags = UCP_MEM_MAP_ALLOCATE;
    check(ucp_mem_map(context_, &params, &memory_), "ucp_mem_map");
  }
  ~Target() { ucp_mem_unmap(context_, memory_); }
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  [[nodiscard]] std::string base() const {
    ucp_mem_attr_t attributes{};
    attributes.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS;
    check(ucp_mem_query(memory_, &attributes), "ucp_mem_query");
    return std::to_string(reinterpret_cast<std::uintptr_t>(attributes.address));
  }
  [[nodiscard]] std::string packed_key() const {
    void* buffer = nullptr;
    std::size_t bytes = 0;
    check(ucp_rkey_pack(context_, memory_, &buffer, &bytes), "ucp_rkey_pack");
    std::string copy(static_cast<const char*>(buffer), bytes);
    ucp_rkey_buffer_release(buffer);
    return copy;
  }

 private:
  ucp_context_h context_;
  ucp_mem_h memory_ = nullptr;
};

// Longer than an operation takes, so that the target never sleeps while one is under way; not so long that on a busy
// machine it takes the CPU from an initiator that wants to go on.
constexpr auto kStayAwake = std::chrono::microseconds(100);

void serve(const Line& line) {
  const Context context = make_context();
  const Worker worker = make_worker(context);
  const Target target(context);
  for (const std::string& message : {address_of(worker), target.base(), target.packed_key()}) line.send(message);

  int worker_fd = -1;
  check(ucp_worker_get_efd(worker.get(), &worker_fd), "ucp_worker_get_efd");
  using Clock = std::chrono::steady_clock;
  for (Clock::time_point last_progress = Clock::now();;) {
    if (ucp_worker_progress(worker.get()) != 0) {
      last_progress = Clock::now();
      continue;
    }
    if (Clock::now() - last_progress < kStayAwake) {
      ::sched_yield();
      continue;
    }
    if (ucp_worker_arm(worker.get()) != UCS_OK) continue;
    pollfd events[] = {{worker_fd, POLLIN, 0}, {line.fd(), POLLIN, 0}};  // NOLINT(modernize-avoid-c-arrays)
    ::poll(events, 2, -1);
    if (events[1].revents != 0) return;  // the initiator ended
    last_progress = Clock::now();
  }
}

class Initiator {
 public:
  explicit Initiator(const Line& line)
      : context_(make_context()), worker_(make_worker(context_)), buffer_(kRegionBytes, std::byte{1}) {
    endpoint_ = connect(worker_, line.receive());
    base_ = std::stoull(line.receive());
    ucp_rkey_h key = nullptr;
    check(ucp_ep_rkey_unpack(endpoint_.get(), line.receive().data(), &key), "ucp_ep_rkey_unpack");
    key_.reset(key);
    requests_.reserve(kDeepest);
  }

  void run(const Work& work, std::uint64_t rounds) {
    for (; rounds != 0; --rounds) {
      requests_.clear();
      for (std::uint64_t i = 0; i < work.depth; ++i) keep(post(work, work.offset(i)));
      for (const ucs_status_ptr_t request : requests_) await(request);
      if (work.operation == Operation::write) flush();
    }
  }

 private:
  ucs_status_ptr_t post(const Work& work, std::uint64_t offset) {
    ucp_request_param_t params{};
    switch (work.operation) {
      case Operation::read:
        return ucp_get_nbx(endpoint_.get(), buffer_.data() + offset, work.bytes, base_ + offset, key_.get(), &params);
      case Operation::write:
        return ucp_put_nbx(endpoint_.get(), buffer_.data() + offset, work.bytes, base_ + offset, key_.get(), &params);
      case Operation::fetch_add:
        params.op_attr_mask = UCP_OP_ATTR_FIELD_REPLY_BUFFER | UCP_OP_ATTR_FIELD_DATATYPE;
        params.reply_buffer = buffer_.data() + offset;
        params.datatype = ucp_dt_make_contig(8);
        return ucp_atomic_op_nbx(endpoint_.get(), UCP_ATOMIC_OP_ADD, &kOne, 1, base_ + offset, key_.get(), &params);
    }
    return nullptr;
  }

  void keep(ucs_status_ptr_t request) {
    if (request == nullptr) return;  // finished at once
    if (UCS_PTR_IS_ERR(request)) check(UCS_PTR_STATUS(request), "an operation");
    requests_.push_back(request);
  }

  void await(ucs_status_ptr_t request) {
    ucs_status_t status = UCS_INPROGRESS;
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
      if (ucp_worker_progress(worker_.get()) == 0) ::sched_yield();
    }
    ucp_request_free(request);
    check(status, "an operation");
  }

  void flush() {
    const ucp_request_param_t params{};
    requests_.clear();
    keep(ucp_ep_flush_nbx(endpoint_.get(), &params));
    for (const ucs_status_ptr_t request : requests_) await(request);
  }

  static constexpr std::uint64_t kOne = 1;

  Context context_;
  Worker worker_;
  Endpoint endpoint_;
  RemoteKey key_;
  std::uint64_t base_ = 0;
  std::vector<std::byte> buffer_;
  std::vector<ucs_status_ptr_t> requests_;
};

}  // namespace
}  // namespace farside::bench

int main() {
  using namespace farside::bench;
  const auto initiate = [](const Line& line) {
    Initiator initiator(line);
    initiator.run({Operation::write, kLargestBytes, kRegionBytes / kLargestBytes}, 1);  // every page is there
    answer_questions([&](const Work& work, std::uint64_t rounds) { initiator.run(work, rounds); });
  };
  return run_pair(initiate, serve);
}
