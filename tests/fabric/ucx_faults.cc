#include "tests/fabric/ucx_faults.h"

#include <new>
#include <thread>

#include <dlfcn.h>
#include <ucp/api/ucp.h>

#include "fabric/ucx/messages.h"

namespace farside::test {

namespace {
std::atomic<std::thread::id> owner;

bool is_owner() { return owner.load() == std::this_thread::get_id(); }

template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}
}  // namespace

UcxFaults& ucx_faults() {
  static UcxFaults faults;
  return faults;
}

void make_ucx_faults_mine() { owner = std::this_thread::get_id(); }

}  // namespace farside::test

using farside::test::ucx_faults;

void* operator new(std::size_t bytes) {
  farside::test::UcxFaults& faults = ucx_faults();
  if (faults.scarce_memory && !farside::test::is_owner() && faults.memory_left-- <= 0) {
    ++faults.memory_refused;
    throw std::bad_alloc();
  }
  static auto* const next = farside::test::real<void*(std::size_t)>("_Znwm");
  return next(bytes);
}

extern "C" {

ucs_status_t ucp_ep_create(ucp_worker_h worker, const ucp_ep_params_t* params, ucp_ep_h* endpoint) {
  ++ucx_faults().endpoints_asked;
  if (ucx_faults().no_endpoints) return UCS_ERR_NO_MEMORY;
  static auto* const next = farside::test::real<decltype(ucp_ep_create)>("ucp_ep_create");
  return next(worker, params, endpoint);
}

ucs_status_t ucp_ep_rkey_unpack(ucp_ep_h endpoint, const void* packed, ucp_rkey_h* key) {
  if (ucx_faults().no_keys) return UCS_ERR_NO_MEMORY;
  static auto* const next = farside::test::real<decltype(ucp_ep_rkey_unpack)>("ucp_ep_rkey_unpack");
  return next(endpoint, packed, key);
}

ucs_status_ptr_t ucp_get_nbx(ucp_ep_h endpoint, void* into, std::size_t count, std::uint64_t from, ucp_rkey_h key,
                             const ucp_request_param_t* params) {
  if (ucx_faults().no_reads) return UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
  static auto* const next = farside::test::real<decltype(ucp_get_nbx)>("ucp_get_nbx");
  return next(endpoint, into, count, from, key, params);
}

ucs_status_ptr_t ucp_am_send_nbx(ucp_ep_h endpoint, unsigned number, const void* header, std::size_t header_bytes,
                                 const void* data, std::size_t bytes, const ucp_request_param_t* params) {
  if (ucx_faults().no_reads && number == farside::kOperationMessage) return UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
  if (ucx_faults().no_hellos && number == farside::kHelloMessage) return UCS_STATUS_PTR(UCS_ERR_NO_RESOURCE);
  if (ucx_faults().no_results && number == farside::kResultMessage) {
    ++ucx_faults().results_refused;
    return UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
  }
  static auto* const next = farside::test::real<decltype(ucp_am_send_nbx)>("ucp_am_send_nbx");
  return next(endpoint, number, header, header_bytes, data, bytes, params);
}

unsigned ucp_worker_progress(ucp_worker_h worker) {
  if (ucx_faults().no_progress && farside::test::is_owner()) return 0;
  static auto* const next = farside::test::real<decltype(ucp_worker_progress)>("ucp_worker_progress");
  const unsigned moved = next(worker);
  return ucx_faults().endless_traffic && !farside::test::is_owner() ? 1 : moved;
}

ucs_status_t ucp_request_check_status(void* request) {
  if (ucx_faults().endless_flush) return UCS_INPROGRESS;
  static auto* const next = farside::test::real<decltype(ucp_request_check_status)>("ucp_request_check_status");
  return next(request);
}

ucs_status_ptr_t ucp_worker_flush_nbx(ucp_worker_h worker, const ucp_request_param_t* params) {
  static auto* const next = farside::test::real<decltype(ucp_worker_flush_nbx)>("ucp_worker_flush_nbx");
  ucs_status_ptr_t request = next(worker, params);
  // One that is never looked at: nothing is under way on a worker that has finished its flush at once.
  static std::uint64_t unfinished[64];
  return ucx_faults().endless_flush && !UCS_PTR_IS_PTR(request) ? static_cast<void*>(unfinished) : request;
}

void ucp_request_free(void* request) {
  if (ucx_faults().endless_flush) return;
  static auto* const next = farside::test::real<decltype(ucp_request_free)>("ucp_request_free");
  next(request);
}

void ucp_get_version(unsigned* major, unsigned* minor, unsigned* release) {
  static auto* const next = farside::test::real<decltype(ucp_get_version)>("ucp_get_version");
  next(major, minor, release);
  if (ucx_faults().minor_version != 0) *minor = ucx_faults().minor_version;
}

ucs_status_t ucp_config_modify(ucp_config_t* config, const char* name, const char* value) {
  static auto* const next = farside::test::real<decltype(ucp_config_modify)>("ucp_config_modify");
  ucx_faults().settings[name] = value;
  const bool forgets = ucx_faults().forgotten_setting == name;
  return next(config, forgets ? (std::string("NO_LONGER_") + name).c_str() : name, value);
}

ucs_status_t ucp_init_version(unsigned major, unsigned minor, const ucp_params_t* params, const ucp_config_t* config,
                              ucp_context_h* context) {
  if ((params->field_mask & UCP_PARAM_FIELD_ESTIMATED_NUM_EPS) != 0) {
    ucx_faults().estimated_endpoints = params->estimated_num_eps;
  }
  static auto* const next = farside::test::real<decltype(ucp_init_version)>("ucp_init_version");
  return next(major, minor, params, config, context);
}

}  // extern "C"
