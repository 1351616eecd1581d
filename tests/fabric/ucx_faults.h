// ucx_faults.h — what UCX may do and seldom does: refuse, never finish, or never fall silent. The test program's own
// functions take the places of UCX's.
#pragma once

#include <atomic>
#include <map>
#include <string>

namespace farside::test {

struct UcxFaults {
  std::atomic<bool> no_endpoints = false;     ///< ucp_ep_create has no memory
  std::atomic<bool> no_keys = false;          ///< nor ucp_ep_rkey_unpack
  std::atomic<bool> no_reads = false;         ///< nor ucp_get_nbx and operations as messages
  std::atomic<bool> no_hellos = false;        ///< leave: ucp_am_send_nbx has no room for them
  std::atomic<bool> no_results = false;       ///< ucp_am_send_nbx has no memory for those of operations as messages
  std::atomic<bool> no_progress = false;      ///< workers of this thread
  std::atomic<bool> endless_traffic = false;  ///< workers of other threads
  std::atomic<bool> endless_flush = false;    ///< of a worker
  std::atomic<bool> scarce_memory = false;    ///< operator new fails in other threads, after `memory_left` more times
  std::atomic<int> memory_left = 0;
  std::atomic<unsigned> memory_refused = 0;
  std::atomic<unsigned> endpoints_asked = 0;
  std::atomic<unsigned> results_refused = 0;
  std::atomic<std::size_t> estimated_endpoints = 0;  ///< as ucp_init was told
  unsigned minor_version = 0;                        ///< of UCX, as ucp_get_version says; 0: what it is
  std::string forgotten_setting;                     ///< by ucp_config_modify, as a later version may
  std::map<std::string, std::string> settings;       ///< as ucp_config_modify was told, by one thread
};

/// Of this process. Faults of threads are those of the thread that called `mine` last.
UcxFaults& ucx_faults();
void make_ucx_faults_mine();

}  // namespace farside::test
