// locking_handler.h — strict two-phase locking, what RAMP is compared with: what a server answers.
//
// It speaks the requests of messages.h. get takes shared locks and answers with the values alone; prepare takes
// exclusive ones and keeps what is to be written; commit writes that, abort drops it, and both let all locks of the
// session go. A session that is refused a lock has to abort. There is one version of a key, in a hash table: nothing
// that two-phase locking has no need of. The locks of a session that dies stay: this is for comparison.
//
// Thread safety: one thread at a time.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kv/protocol/messages.h"
#include "kv_baselines/locking/lock_table.h"

namespace farside::kv_baselines {

class LockingHandler {
 public:
  /// Empty: the request is not of this protocol.
  [[nodiscard]] kv::Message answer(std::span<const std::byte> request);

 private:
  void get(const kv::Request& request, kv::Reply& reply);
  void prepare(const kv::Request& request, kv::Reply& reply);
  void commit(std::uint64_t session);

  LockTable locks_;
  std::unordered_map<std::string, std::string> values_;
  std::unordered_map<std::uint64_t, std::vector<std::pair<std::string, std::string>>> prepared_;  // by session
};

}  // namespace farside::kv_baselines
