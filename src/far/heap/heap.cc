#include "farside/far/heap.h"

#include <string>

#include "farside/base/error.h"
#include "farside/base/memory.h"
#include "farside/base/units.h"

#include "base/mutex.h"
#include "far/heap/heap_layout.h"
#include "far/pager/end.h"
#include "far/pager/pager.h"
#include "far/pager/space_shuttles.h"

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
      : pager(std::make_unique<SpaceShuttles>(checked(std::move(space), options)),
              {.budget_bytes = options.local_bytes,
               .service = options.for_system_calls ? FaultService::handler : FaultService::automatic}),
        layout(pager.bytes()) {}

  Pager pager;
  Mutex mutex;
  HeapLayout layout GUARDED_BY(mutex);
  bool has_hints GUARDED_BY(mutex) = false;
};

Heap::Heap(std::unique_ptr<Space> space, HeapOptions options)
    : state_(std::make_unique<State>(std::move(space), options)) {}

Heap::~Heap() = default;

void* Heap::allocate(std::size_t bytes, std::size_t alignment) {
  const MutexLock lock(state_->mutex);
  const auto begin = state_->layout.take(bytes, alignment);
  if (!begin) throw std::bad_alloc();
  return state_->pager.base() + *begin;
}

// Pages are discarded under the lock: discarded later, they could belong to another allocation by then.
void Heap::deallocate(void* begin) noexcept {
  if (begin == nullptr) return;
  const MutexLock lock(state_->mutex);
  std::byte* const base = state_->pager.base();
  const auto released = state_->layout.give(static_cast<std::size_t>(static_cast<std::byte*>(begin) - base));
  if (!released) end_process("give back far memory", "the heap has nothing that begins there, or not any more");
  if (released->bytes == 0) return;
  if (state_->has_hints) state_->pager.advise(base + released->begin, released->bytes, Hint::none);
  state_->pager.discard(base + released->begin, released->bytes);
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
