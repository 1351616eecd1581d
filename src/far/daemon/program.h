// program.h — one process, and the pager that stands outside of it.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <sys/types.h>

#include "farside/base/fd.h"

#include "base/assert.h"
#include "base/metrics.h"
#include "base/mutex.h"
#include "far/daemon/allocations.h"
#include "far/daemon/profile.h"
#include "far/daemon/program_memory.h"
#include "far/daemon/rules.h"
#include "far/daemon/slot_map.h"
#include "far/pager/evictor.h"
#include "far/pager/page_mover.h"
#include "far/pager/space_page_io.h"
#include "far/pager/userfault.h"

namespace farside::far {

/// The state that all programs share.
struct SharedBudget {
  SharedBudget(std::uint64_t budget_pages, std::unique_ptr<Space> far, std::uint32_t most_ahead,
               std::chrono::milliseconds timeout, DaemonRules of_forks, Profile* of_allocations)
      : frames(budget_pages),
        space(std::move(far)),
        slots(space.open(), space.pages()),
        most_ahead_pages(most_ahead),
        fault_timeout(timeout),
        rules(of_forks),
        profile(of_allocations) {}

  Frames frames;
  SpacePageIoSource space;
  Slots slots;
  std::uint32_t most_ahead_pages;
  std::chrono::milliseconds fault_timeout;
  DaemonRules rules;
  Profile* profile;  ///< if any
  std::atomic<std::int64_t> pinned_pages{0};
  metrics::Histogram faults{
      {"farside_far_fault_seconds", "How long a page fault of a program on far memory takes to serve."}};
  std::atomic<bool> is_closing{false};
};

class Program;

/// The state that a child of fork begins with: the places of its parent's pages in the space, and which are foreign.
class ForkSnapshot {
 public:
  /// From here on no page of the parent leaves.
  explicit ForkSnapshot(std::shared_ptr<Program> parent);

  /// Until here. The fork has happened, or never will.
  void let_parent_go_on();

  [[nodiscard]] const PageRanges& ranges() const { return ranges_; }
  /// After let_parent_go_on: no page from here on is anywhere.
  [[nodiscard]] PageNumber end() const {
    assert_that(parent_ == nullptr, "the end is known once the parent goes on");
    return end_;
  }
  [[nodiscard]] std::unique_ptr<SlotMap> take_slots() { return std::move(slots_); }
  /// In ascending order.
  [[nodiscard]] const std::vector<PageNumber>& foreign() const { return foreign_; }
  [[nodiscard]] std::unique_ptr<Allocations> take_allocations() { return std::move(allocations_); }

 private:
  void copy_table();

  std::shared_ptr<Program> parent_;
  std::optional<EvictionGate::Bar> bar_;
  const PageRanges ranges_;
  std::unique_ptr<SlotMap> slots_;
  std::vector<PageNumber> foreign_;
  std::unique_ptr<Allocations> allocations_;
  PageNumber end_ = 0;
};

/// Thread safety: every call, from any thread.
class Program {
 public:
  /// For a process that sent `userfault` over `connection`, and waits. Throws Error when it cannot be served.
  Program(SharedBudget& shared_budget, pid_t process, std::shared_ptr<const Fd> connection, Fd userfault,
          PageRanges ranges, std::unique_ptr<ForkSnapshot> fork_snapshot);
  /// Frees everything that it had.
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// Until its connection ends, and with it the process, or its use of this memory.
  void serve_until_gone();

  /// This process, or one that shares its memory, as vfork's child does. Others may only have its token.
  [[nodiscard]] bool is(pid_t process) const { return memory_.is_of(process); }
  /// Kills the process. A process that cannot be served must not go on, or absent pages would be zeros.
  void end();

  /// The range is free.
  void discard(const AddressRange& range);
  /// The range is in use, and zeros from now on. False, and nothing changes, when a page of it is pinned: system calls
  /// and devices may be using that.
  [[nodiscard]] bool clear(const AddressRange& range);
  /// Something else is about to be mapped there.
  void give_away(const AddressRange& range);
  /// Pages that are pinned stay so. False when more would be pinned than may be.
  [[nodiscard]] bool advise(const AddressRange& range, Hint hint);
  void unpin(const AddressRange& range);
  /// By `process`, which is this one or shares its memory, from where `caller` is.
  void allocated(const AddressRange& range, std::uint64_t caller, pid_t process);
  [[nodiscard]] PagerCounts counts() const { return mover_.counts(); }

  // For ForkSnapshot, which is made of these.
  [[nodiscard]] SharedBudget& shared_budget() { return shared_budget_; }
  [[nodiscard]] const PageRanges& ranges() const { return memory_.ranges(); }
  [[nodiscard]] PageMover& mover() { return mover_; }
  [[nodiscard]] SlotMap& slots() { return *slots_; }
  [[nodiscard]] const Allocations* allocations() const { return allocations_.get(); }

 private:
  void watch(std::span<const PageNumber> foreign);
  void begin(PageNumber end_of_arena);
  void begin_pages(PageNumber first, PageNumber count);
  void serve(PageNumber page, bool is_write, PageIo& page_io);
  void serve_waiting_faults();
  void await_end();
  [[nodiscard]] bool pin(PageNumber first, PageNumber count) REQUIRES(advising_);
  void give_hint(const AddressRange& range, const Profile::Allocation& allocation);
  /// That of all pages. Any but pinned.
  void set_hint(const AddressRange& range, Hint hint) REQUIRES(advising_);
  void empty(const AddressRange& range) REQUIRES(advising_);

  SharedBudget& shared_budget_;
  const std::shared_ptr<const Fd> connection_;
  ProgramMemory memory_;
  const Userfault userfault_;
  const std::unique_ptr<SlotMap> slots_;
  const std::unique_ptr<Allocations> allocations_;  ///< if there is a profile
  PageMover mover_;
  SlotPageIo handlers_;
  std::optional<Evictor> evictor_;
  Mutex advising_;  ///< held while hints change, and until pages have gone that were found not to be pinned
  std::int64_t pinned_pages_ GUARDED_BY(advising_) = 0;
  std::atomic<bool> has_hints_{false};
};

}  // namespace farside::far
