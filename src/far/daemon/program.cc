#include "far/daemon/program.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include "farside/base/error.h"
#include "farside/base/log.h"

#include "base/assert.h"
#include "far/time_limits.h"

namespace farside::far {

namespace {

constexpr PageNumber kChunk = 4096;  // pages that are looked at in one go
constexpr int kLook_ms = 1;

/// Calls `then(first, count)` for chunks of the pages below `end`.
template <class Then>
void for_each_chunk(PageNumber first, PageNumber end, Then&& then) {
  for (PageNumber begin = first; begin < end; begin += std::min(kChunk, end - begin)) {
    then(begin, std::min(kChunk, end - begin));
  }
}

std::unique_ptr<Allocations> allocations_of(const SharedBudget& shared_budget, pid_t process, const PageRanges& ranges,
                                            ForkSnapshot* fork_snapshot) {
  if (shared_budget.profile == nullptr) return nullptr;
  if (fork_snapshot != nullptr) return fork_snapshot->take_allocations();
  return std::make_unique<Allocations>(*shared_budget.profile, process, ranges);
}

}  // namespace

// ---- What a child begins with

ForkSnapshot::ForkSnapshot(std::shared_ptr<Program> parent)
    : parent_(std::move(parent)),
      bar_(parent_->mover().eviction_gate()),
      ranges_(parent_->ranges()),
      slots_(
          std::make_unique<SlotMap>(parent_->shared_budget().slots, ranges_.pages(), parent_->shared_budget().rules)) {
  copy_table();
  if (parent_->allocations() != nullptr) allocations_ = std::make_unique<Allocations>(*parent_->allocations());
  if (!parent_->shared_budget().rules.stays_quiet) bar_.reset();
}

// Faults go on during the copy, but only bring pages: a page that is far in the copy is far in the child, or it is
// here. No page gives up its slot during the copy.
void ForkSnapshot::copy_table() {
  std::vector<PageNumber> far;
  const auto copy_chunk = [&](PageNumber first, PageNumber count) {
    far.clear();
    for (PageNumber page = first; page < first + count; ++page) {
      const PageState state = parent_->mover().settled(page).state();
      if (state == PageState::far) far.push_back(page);
      if (state == PageState::foreign) foreign_.push_back(page);
    }
    parent_->slots().share_with(*slots_, far);
  };
  const PageNumber end = parent_->mover().end();
  for (const PageRanges::Piece& piece : ranges_.pieces()) {
    for_each_chunk(piece.first, std::min(end, piece.first + piece.count), copy_chunk);
  }
}

void ForkSnapshot::let_parent_go_on() {
  if (parent_ == nullptr) return;
  end_ = parent_->mover().end();
  bar_.reset();
  parent_.reset();
}

// ---- One process

Program::Program(SharedBudget& shared_budget, pid_t process, std::shared_ptr<const Fd> connection, Fd userfault,
                 PageRanges ranges, std::unique_ptr<ForkSnapshot> fork_snapshot)
    : shared_budget_(shared_budget),
      connection_(connection),
      memory_(process, std::move(connection), std::move(ranges)),
      userfault_(std::move(userfault)),
      slots_(fork_snapshot != nullptr
                 ? fork_snapshot->take_slots()
                 : std::make_unique<SlotMap>(shared_budget.slots, memory_.pages(), shared_budget.rules)),
      allocations_(allocations_of(shared_budget, process, memory_.ranges(), fork_snapshot.get())),
      mover_(memory_, userfault_, shared_budget.frames, shared_budget.most_ahead_pages, shared_budget.fault_timeout,
             PagerRules{}, allocations_.get()),
      handlers_(*slots_, shared_budget.space.open()) {
  ::fcntl(userfault_.descriptor(), F_SETFL, O_NONBLOCK);
  watch(fork_snapshot != nullptr ? fork_snapshot->foreign() : std::vector<PageNumber>{});
  begin(fork_snapshot != nullptr ? fork_snapshot->end() : 0);
}

// All of it, but for what is foreign.
void Program::watch(std::span<const PageNumber> foreign) {
  const auto watch_between = [&](PageNumber first, PageNumber end) {
    if (first != end) userfault_.watch(memory_.at(first), std::size_t{end - first} * kPageBytes);
  };
  auto next = foreign.begin();
  for (const PageRanges::Piece& piece : memory_.ranges().pieces()) {
    const PageNumber end = piece.first + piece.count;
    PageNumber begin = piece.first;
    for (; next != foreign.end() && *next < end; ++next) {
      assert_that(*next >= begin, "foreign pages are listed in ascending order");
      mover_.leave_out(*next);
      watch_between(begin, *next);
      begin = *next + 1;
    }
    watch_between(begin, end);
    mover_.leave_out(end);
  }
}

Program::~Program() {
  evictor_.reset();
  shared_budget_.pinned_pages -= pinned_pages_;
}

// The kernel knows what is here: of a new program parts of its static arrays, of a child what its parent had at the
// fork. What is neither here nor in the space is zeros. A child's children look for what is foreign as far as it does.
void Program::begin(PageNumber end_of_arena) {
  mover_.raise_end(end_of_arena);
  const PageNumber arena = memory_.ranges().arena().first;
  for (const PageRanges::Piece& piece : memory_.ranges().pieces()) {
    const PageNumber touched = piece.first != arena ? piece.count : std::max(end_of_arena, arena) - arena;
    for_each_chunk(piece.first, piece.first + std::min(touched, piece.count),
                   [&](PageNumber first, PageNumber count) { begin_pages(first, count); });
  }
}

void Program::begin_pages(PageNumber first, PageNumber count) {
  const std::vector<bool> is_here = memory_.present(first, count);
  const std::vector<bool> is_stored = slots_->stored(first, count);
  for (PageNumber i = 0; i < count; ++i) {
    if (mover_.settled(first + i).state() == PageState::foreign) continue;
    if (is_here[i]) {
      mover_.begin_with(first + i, PageState::dirty);
      if (is_stored[i]) slots_->erase(first + i, 1);
    } else if (is_stored[i]) {
      mover_.begin_with(first + i, PageState::far);
    }
  }
}

void Program::serve(PageNumber page, bool is_write, PageIo& page_io) {
  const Status status = mover_.serve(page, is_write, page_io);
  if (status == Status::done || memory_.is_gone()) return;
  memory_.fail("bring a page of far memory", status == Status::full
                                                 ? "the budget is used up, and no page can leave: far memory is full"
                                                 : to_string(status));
}

void Program::serve_until_gone() {
  evictor_.emplace(memory_, mover_, shared_budget_.frames,
                   std::make_unique<SlotPageIo>(*slots_, shared_budget_.space.open()));
  if (allocations_ != nullptr) {
    for (const auto& [range, allocation] : allocations_->hinted()) give_hint(range, *allocation);
  }
  std::array<pollfd, 2> waits{{{userfault_.descriptor(), POLLIN, 0}, {connection_->get(), POLLRDHUP, 0}}};
  do {
    (void)::poll(waits.data(), waits.size(), -1);
    serve_waiting_faults();
  } while (waits[1].revents == 0);
  ::shutdown(connection_->get(), SHUT_RDWR);  // from here on no thread waits for an answer
  evictor_.reset();
  await_end();
}

void Program::serve_waiting_faults() {
  while (const auto fault = userfault_.next()) {
    const auto page = memory_.ranges().page_of(reinterpret_cast<std::uint64_t>(fault->address));
    if (!page) continue;
    const metrics::ScopedLatency latency(shared_budget_.faults);
    serve(*page, fault->is_write, handlers_);
  }
}

void Program::end() {
  memory_.kill();
  await_end();
}

// While a process still has this memory, as a child of vfork may when its parent is gone, its pages come, though none
// can leave; and the descriptor of its faults stays open: once it is closed, absent pages would be zeros.
void Program::await_end() {
  const auto began = std::chrono::steady_clock::now();
  for (bool is_killed = false;;) {
    if (userfault_.unprotect(memory_.at(memory_.ranges().arena().first), kPageBytes) == ESRCH) return;
    const auto waited = std::chrono::steady_clock::now() - began;
    if (waited > time_limits::kEnd && !std::exchange(is_killed, true)) memory_.kill();
    if (waited > time_limits::kClose && shared_budget_.is_closing) break;
    pollfd wait{userfault_.descriptor(), POLLIN, 0};
    (void)::poll(&wait, 1, is_killed ? 50 * kLook_ms : kLook_ms);
    serve_waiting_faults();
  }
  log::error("a program that lost its far memory does not end");
}

// ---- What it asks for

// To erase, a page I/O object carries nothing: the handler's may be used beside it.
void Program::discard(const AddressRange& range) {
  const MutexLock lock(advising_);
  empty(range);
}

void Program::empty(const AddressRange& range) {
  if (has_hints_) set_hint(range, Hint::none);
  memory_.ranges().for_each_part(range,
                                 [&](PageNumber first, PageNumber count) { mover_.discard(first, count, handlers_); });
}

// Under one lock: what was pinned after the look, and told so, would go.
bool Program::clear(const AddressRange& range) {
  const MutexLock lock(advising_);
  bool is_any_pinned = false;
  if (has_hints_) {
    memory_.ranges().for_each_part(range, [&](PageNumber first, PageNumber count) {
      is_any_pinned = is_any_pinned || mover_.not_pinned(first, count) != count;
    });
  }
  if (!is_any_pinned) empty(range);
  return !is_any_pinned;
}

void Program::give_away(const AddressRange& range) {
  const MutexLock lock(advising_);
  if (has_hints_) set_hint(range, Hint::none);
  memory_.ranges().for_each_part(
      range, [&](PageNumber first, PageNumber count) { mover_.give_away(first, count, handlers_); });
}

void Program::unpin(const AddressRange& range) {
  const MutexLock lock(advising_);
  set_hint(range, Hint::none);
}

bool Program::advise(const AddressRange& range, Hint hint) {
  const MutexLock lock(advising_);
  has_hints_ = true;
  bool all = true;
  memory_.ranges().for_each_part(range, [&](PageNumber first, PageNumber count) {
    advising_.assume_held();
    if (hint == Hint::pinned) {
      all = all && pin(first, count);
    } else {
      mover_.advise(first, count, hint, PageMover::Pinned::stay);
    }
  });
  return all;
}

void Program::set_hint(const AddressRange& range, Hint hint) {
  assert_that(hint != Hint::pinned, "pages are pinned by pin() alone");
  has_hints_ = true;
  memory_.ranges().for_each_part(range, [&](PageNumber first, PageNumber count) {
    advising_.assume_held();
    const std::int64_t change = mover_.advise(first, count, hint);
    pinned_pages_ += change;
    shared_budget_.pinned_pages += change;
  });
}

void Program::allocated(const AddressRange& range, std::uint64_t caller, pid_t process) {
  if (allocations_ == nullptr) return;
  const Profile::Allocation* const allocation = allocations_->allocated(range, caller, process);
  if (allocation == nullptr) return;
  if (has_hints_ || allocation->hint() != Hint::none) give_hint(range, *allocation);  // others may have been there
}

void Program::give_hint(const AddressRange& range, const Profile::Allocation& allocation) {
  if (allocation.hint() != Hint::pinned) {
    const MutexLock lock(advising_);
    return set_hint(range, allocation.hint());
  }
  if (advise(range, Hint::pinned)) return;
  log::warn("\"" + allocation.name() + "\" is not pinned: it would be more than three quarters of the budget");
}

// Pages that are pinned already are not counted again.
bool Program::pin(PageNumber first, PageNumber count) {
  const auto most = static_cast<std::int64_t>(shared_budget_.frames.budget() / 4 * 3);
  const std::int64_t more = mover_.not_pinned(first, count);
  if (shared_budget_.pinned_pages.fetch_add(more) + more > most) {
    shared_budget_.pinned_pages -= more;
    return false;
  }
  const std::int64_t pinned = mover_.advise(first, count, Hint::pinned);
  assert_that(pinned == more, "no other thread changes hints while pages are counted and pinned");
  pinned_pages_ += pinned;
  SlotPageIo page_io(*slots_, shared_budget_.space.open());
  for (PageNumber page = first; page < first + count; ++page) serve(page, true, page_io);
  return true;
}

}  // namespace farside::far
