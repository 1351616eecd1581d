#include "cache/leases.h"

#include "farside/cache/time_limits.h"

#include "base/assert.h"
#include "cache/pause.h"

namespace farside::cache {

Leases::Ticket Leases::begin(const Row& row) {
  const Time now = fabric_.now();
  const MutexLock lock(mutex_);
  return loads_.insert(loads_.end(), Load{.row = row, .begun = now, .renewed = now, .in_doubt = std::nullopt});
}

Leases::Load Leases::end(Ticket load, Deadline deadline) {
  Pause pause(fabric_);
  for (bool may_wait = true;; may_wait = pause.wait_before(deadline)) {
    const MutexLock lock(mutex_);
    assert_that(!load->over, "a load ends once");
    if (!load->renewing) {
      Load ended = std::move(*load);
      loads_.erase(load);
      return ended;
    }
    if (!may_wait) {
      load->over = true;
      return *load;
    }
  }
}

void Leases::renew(Channel& channel, Deadline deadline) {
  for (const Ticket load : take_due()) renew_one(channel, load, deadline);
}

std::vector<Leases::Ticket> Leases::take_due() {
  const Time now = fabric_.now();
  std::vector<Ticket> due;
  const MutexLock lock(mutex_);
  for (auto load = loads_.begin(); load != loads_.end(); ++load) {
    const bool is_due = now - load->renewed >= interval_ && now - load->begun < cache::time_limits::kMaxLoad;
    if (!is_due || load->renewing || load->in_doubt) continue;
    load->renewing = true;
    due.push_back(load);
  }
  return due;
}

void Leases::renew_one(Channel& channel, Ticket load, Deadline deadline) {
  Row row = load->row;  // which end() may look at meanwhile
  const Cell mine = row.cell(group_);
  const Cell renewed = mine.loading_at(mine.place());
  const bool tried = fabric_.now() < deadline.at;
  const bool done = tried && directory_.change(channel, row, group_, renewed, deadline);
  const MutexLock lock(mutex_);
  assert_that(load->renewing, "a load that is renewed has one renewer");
  load->renewing = false;
  if (done) {
    load->row = row;
    load->renewed = fabric_.now();
  } else if (tried) {
    load->in_doubt = renewed;
  }
  if (load->over) loads_.erase(load);
}

}  // namespace farside::cache
