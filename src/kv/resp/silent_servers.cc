#include "kv/resp/silent_servers.h"

#include <utility>

namespace farside::kv {

SilentServers::Answers SilentServers::of(const Silent& silent) const {
  return Clock::now() - silent.since < limit_ ? Answers::perhaps : Answers::no;
}

SilentServers::Answers SilentServers::to(Use use, std::uint32_t server) const {
  if (!any()) return Answers::yes;
  const MutexLock lock(mutex_);
  const auto found = silent_.find(server);
  if (found == silent_.end() || !(use == Use::read ? found->second.reads : found->second.writes)) return Answers::yes;
  return of(found->second);
}

SilentServers::Worst SilentServers::of_all() const {
  if (!any()) return {};
  const MutexLock lock(mutex_);
  if (silent_.empty()) return {};
  const auto& [server, silent] = *silent_.begin();
  return {of(silent), server};
}

void SilentServers::suspect(Use use, std::uint32_t server) {
  const MutexLock lock(mutex_);
  Silent& silent = silent_[server];
  (use == Use::read ? silent.reads : silent.writes) = true;
  any_ = true;
}

bool SilentServers::note(const std::vector<bool>& answered) {
  const MutexLock lock(mutex_);
  bool is_other = std::erase_if(silent_, [&](const auto& each) {
                    return each.first >= answered.size() || answered[each.first];
                  }) != 0;
  for (auto& [server, silent] : silent_) {
    const bool is_past_limit = of(silent) == Answers::no;
    is_other = std::exchange(silent.is_past_limit, is_past_limit) != is_past_limit || is_other;
  }
  any_ = !silent_.empty();
  return is_other;
}

}  // namespace farside::kv
