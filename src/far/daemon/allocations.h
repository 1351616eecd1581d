// allocations.h — which pages of a process belong to which of its large allocations, and what becomes of them.
//
// A name is the same in every run, unless threads call from one place: the program, that place, and the how-manieth
// call it was from there; or the symbol of a static array. What a program frees keeps its name until something else is
// allocated there.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/mutex.h"
#include "far/daemon/profile.h"
#include "far/daemon/program_memory.h"
#include "far/daemon/symbols.h"
#include "far/pager/page_observer.h"

namespace farside::far {

/// Thread safety: every call, from any thread.
class Allocations final : public PageObserver {
 public:
  /// For a process that begins: records its static arrays.
  Allocations(Profile& profile, pid_t process, const PageRanges& ranges);
  /// For a child of fork: copies what its parent has, and goes on counting from there.
  explicit Allocations(const Allocations& parent);

  /// A range of the arena that `process` called for from there: whose it is from now on. None: it lies elsewhere.
  [[nodiscard]] const Profile::Allocation* allocated(const AddressRange& range, std::uint64_t caller, pid_t process);

  struct Hinted {
    AddressRange range;
    const Profile::Allocation* allocation;
  };
  /// Returns the ranges that have a hint now.
  [[nodiscard]] std::vector<Hinted> hinted() const;

  void note(PageEvent event, PageNumber page, std::uint64_t count) override;

 private:
  [[nodiscard]] Place site_of(std::uint64_t caller, pid_t process);
  void set(const AddressRange& range, Profile::Allocation& allocation) REQUIRES(mutex_);

  Profile& profile_;
  const std::string program_;
  const PageRanges ranges_;
  mutable Mutex mutex_;
  std::map<std::uint64_t, Place> sites_ GUARDED_BY(mutex_);        ///< by the address that called
  std::map<std::string, std::uint64_t> calls_ GUARDED_BY(mutex_);  ///< from each site, so far
  std::map<PageNumber, Profile::Allocation*> at_
      GUARDED_BY(mutex_);  ///< the owner from this page to the next entry; null: none
};

}  // namespace farside::far
