#include "kv/replication/standby.h"

#include <limits>

namespace farside::kv {

bool Standby::step() {
  if (serves() || has_given_up()) return false;
  return is_primary_dead_() ? take_over() : log_.take_some();
}

void Standby::serve(std::uint64_t epoch) {
  words_.write(epoch);
  epoch_ = epoch;
}

bool Standby::take_over() {
  if (rules_.closes_the_ring && !take_primarys_access_()) return false;  // it is tried again
  log_.bear_with_the_disk();
  while (rules_.drains_the_ring && log_.take_some()) continue;
  if (has_given_up()) return false;
  if (!log_.is_full() && rules_.serves_when_full) {
    flaw_ = "its primary has died before all was copied";
    return false;
  }
  commit_what_is_prepared_here_alone();
  const std::uint64_t epoch = log_.epoch() + 1;
  // If that fails it is not known what the disk has: nothing is written any more, and what was acknowledged is read.
  if (disk_ != nullptr && rules_.claims_before_serving) (void)disk_->claim(CopyStanding::alone, epoch);
  serve(epoch);
  return true;
}

// Their commit may have been seen, and its readers do not remember what concerns one server alone. Nothing else can
// come of them: if a server is the only one to be asked and has prepared, there is no reason to abort.
void Standby::commit_what_is_prepared_here_alone() {
  for (const UnresolvedTransaction& each : store_.undecided({std::numeric_limits<std::int64_t>::max()})) {
    const bool is_alone = std::ranges::all_of(each.servers, [this](ServerNumber server) { return server == self_; });
    if (is_alone) (void)store_.commit(each.timestamp);
  }
}

}  // namespace farside::kv
