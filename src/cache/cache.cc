#include "farside/cache/cache.h"

#include "base/mutex.h"
#include "cache/acquire.h"
#include "cache/alternative_directory.h"
#include "cache/directory.h"
#include "cache/discard.h"
#include "cache/geometry.h"
#include "cache/leases.h"
#include "cache/peers.h"
#include "cache/rules.h"
#include "cache/slot_index.h"
#include "cache/slots.h"

namespace farside::cache {

class Cache::Impl {
 public:
  Impl(team::Team& team, const CacheOptions& options, const CacheRules& rules)
      : geometry_(options, team.size(), rules),
        region_(team.allocate("cache", geometry_.layout().region_bytes)),
        peers_(team, *region_),
        directory_(geometry_, peers_, team.fabric(), rules),
        alternative_(geometry_, peers_, geometry_.group_of(team.rank())),
        slots_(geometry_, *region_, peers_, rules),
        slot_index_(geometry_.layout(), options.singlet_ratio, HostIndex(geometry_.layout(), region_->local())),
        discarder_(team, geometry_, directory_, alternative_, slots_, slot_index_, options.loading_lease, rules),
        leases_(team.fabric(), directory_, geometry_.group_of(team.rank()), options.loading_lease),
        acquirer_(team, geometry_, directory_, alternative_, slots_, slot_index_, discarder_, leases_,
                  options.loading_lease, rules),
        last_token_(rules.token_tells_lives ? std::uint64_t{team.incarnation()} << 48U : 0) {}

  // A token is the incarnation and a count within it, so that a restarted node repeats none.
  std::uint64_t new_token() {
    const MutexLock lock(token_mutex_);
    return ++last_token_;
  }

  Geometry geometry_;
  std::unique_ptr<team::SymmetricRegion> region_;
  Peers peers_;
  Directory directory_;
  AlternativeDirectory alternative_;
  Slots slots_;
  SlotIndex slot_index_;
  Discarder discarder_;
  Leases leases_;
  Acquirer acquirer_;

 private:
  Mutex token_mutex_;
  std::uint64_t last_token_ GUARDED_BY(token_mutex_);
};

Cache::Cache(team::Team& team, const CacheOptions& options) : Cache(team, options, CacheRules{}) {}
Cache::Cache(team::Team& team, const CacheOptions& options, const CacheRules& rules)
    : impl_(std::make_unique<Impl>(team, options, rules)) {}
Cache::~Cache() = default;

void Cache::set_board(const UseBoard& board) { impl_->slot_index_.set_board(board); }
const CacheLayout& Cache::layout() const { return impl_->geometry_.layout(); }
const Region& Cache::region() const { return impl_->region_->local(); }

Acquired Cache::acquire(Channel& channel, const BlockKey& key, BlockSource& source, Deadline deadline,
                        LoaderWatch* watch) {
  if (impl_->geometry_.block_length(key) == 0) return {Acquired::Answer::failed, 0, 0};
  return impl_->acquirer_.acquire(channel, key, source, impl_->new_token(), deadline, watch);
}

void Cache::renew_leases(Channel& channel, Deadline deadline) { impl_->leases_.renew(channel, deadline); }

CacheCounters Cache::counters() const { return impl_->slot_index_.counters(); }

}  // namespace farside::cache
