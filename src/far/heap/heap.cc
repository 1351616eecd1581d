#include "farside/far/heap.h"

#include <optional>
#include <string>

#include "farside/base/error.h"
#include "farside/base/memory.h"
#include "farside/base/units.h"

#include "base/mutex.h"
#include "far/heap/heap_layout.h"
#include "far/pager/end.h"
#include "far/pager/pager.h"
#include "far/pager/space_page_io.h"

namespace farside::far {

namespace {

std::unique_ptr<Space> checked(std::unique_ptr<Space> space, const HeapOptions& options) {
  const std::uint64_t available = available_memory_bytes();
  if (options.local_bytes > available) {
    throw UsageError({"keep in this machine's memory", format_bytes(options.local_bytes),
                      "only " + format_bytes(available) + " are to be had", "give a smaller budget"});
  }
  if (space->bytes() < HeapLayout::kGranuleBytes) {
    throw Error({"make a far heap in a space of", format_bytes(space->bytes()), "it has no room",
                 "ask the pool for at least " + format_bytes(HeapLayout::kGranuleBytes)});
  }
  return space;
}

}  // namespace

class Heap::State {
 public:
  State(std::unique_ptr<Space> space, HeapOptions options)
      : pager(std::make_unique<SpacePageIoSource>(checked(std::move(space), options)),
              {.budget_bytes = options.local_bytes,
               .service = options.for_system_calls ? FaultService::handler : FaultService::automatic}),
        layout(pager.bytes()) {}

  // Nothing is there any more, and no allocation yet. One thread at a time: each takes one of the pager's few page I/O
  // objects, and may wait for a node that does not answer.
  void empty(const HeapLayout::Released& released, bool is_hinted) EXCLUDES(emptying, mutex) {
    const MutexLock lock(emptying);
    if (is_hinted) pager.advise(pager.base() + released.begin, released.bytes, Hint::none);
    pager.discard(pager.base() + released.begin, released.bytes);
  }

  Pager pager;
  Mutex emptying;
  Mutex mutex;
  ConditionVariable emptied;
  HeapLayout layout GUARDED_BY(mutex);
  std::size_t being_emptied GUARDED_BY(mutex) = 0;
  bool has_hints GUARDED_BY(mutex) = false;
};

Heap::Heap(std::unique_ptr<Space> space, HeapOptions options)
    : state_(std::make_unique<State>(std::move(space), options)) {}

Heap::~Heap() = default;

void* Heap::allocate(std::size_t bytes, std::size_t alignment) {
  State& state = *state_;
  std::optional<std::size_t> begin;
  MutexLock lock(state.mutex);
  state.emptied.wait(lock, [&]() REQUIRES(state.mutex) {
    begin = state.layout.take(bytes, alignment);
    return begin || state.being_emptied == 0;
  });
  if (!begin) throw std::bad_alloc();
  return state.pager.base() + *begin;
}

// The pages are discarded before they are anything else's, without the lock: that may take as long as a node does not
// answer.
void Heap::deallocate(void* begin) noexcept {
  if (begin == nullptr) return;
  State& state = *state_;
  MutexLock lock(state.mutex);
  const auto released =
      state.layout.give(static_cast<std::size_t>(static_cast<std::byte*>(begin) - state.pager.base()));
  if (!released) end_process("give back far memory", "the heap has nothing that begins there, or not any more");
  if (released->bytes == 0) return;
  const bool has_hints = state.has_hints;
  ++state.being_emptied;
  lock.unlock();
  state.empty(*released, has_hints);
  lock.lock();
  --state.being_emptied;
  state.layout.reuse(*released);
  state.emptied.notify_all();
}

void Heap::advise(const void* begin, std::size_t bytes, Hint hint) {
  Pager& pager = state_->pager;
  const auto* const from = static_cast<const std::byte*>(begin);
  if (!pager.owns(from) || bytes > pager.bytes() - static_cast<std::size_t>(from - pager.base())) {
    throw UsageError({"give a hint about", "memory", "it does not lie in this heap", "name what the heap allocated"});
  }
  {
    const MutexLock lock(state_->mutex);
    state_->has_hints = true;
  }
  pager.advise(const_cast<std::byte*>(from), bytes, hint);
}

HeapStatistics Heap::statistics() const {
  const PagerCounts counts = state_->pager.counts();
  return {.faults = counts.faults,
          .protection_faults = counts.protection_faults,
          .ahead_pages = counts.ahead_pages,
          .ahead_hits = counts.ahead_hits,
          .bytes_in = counts.fetched_pages * kPageBytes,
          .bytes_out = counts.stored_pages * kPageBytes,
          .bytes_here = state_->pager.pages_here() * kPageBytes,
          .nanoseconds_in_faults = counts.nanoseconds_in_faults};
}

bool Heap::serves_system_calls() const { return state_->pager.service() == FaultService::handler; }

}  // namespace farside::far
