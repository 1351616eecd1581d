#include "kv_baselines/locking/lock_table.h"

#include <algorithm>

namespace farside::kv_baselines {

bool LockTable::take(std::uint64_t session, const kv::KeyId& key, Mode mode) {
  Lock& lock = locks_[key];
  const bool has_it = std::ranges::find(lock.holders, session) != lock.holders.end();
  const bool has_it_alone = has_it ? lock.holders.size() == 1 : lock.holders.empty();
  if (mode == Mode::exclusive ? !has_it_alone : lock.mode == Mode::exclusive && !has_it) return false;
  if (mode == Mode::exclusive) lock.mode = Mode::exclusive;
  if (!has_it) {
    lock.holders.push_back(session);
    held_[session].push_back(key);
  }
  return true;
}

void LockTable::release(std::uint64_t session) {
  const auto found = held_.find(session);
  if (found == held_.end()) return;
  for (const kv::KeyId& key : found->second) {
    const auto lock = locks_.find(key);
    std::erase(lock->second.holders, session);
    if (lock->second.holders.empty()) locks_.erase(lock);
  }
  held_.erase(found);
}

}  // namespace farside::kv_baselines
