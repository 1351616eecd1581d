#include "far/pager/pager.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "farside/base/error.h"
#include "farside/base/units.h"

#include "base/assert.h"
#include "base/signals_held.h"
#include "far/pager/end.h"

namespace farside::far {

namespace {

constexpr std::size_t kPageIos = 6;  // pages of so many threads are fetched at the same time

// A thread that blocks SIGBUS would be killed by its first fault.
FaultService chosen(FaultService wanted) {
  if (wanted != FaultService::automatic) return wanted;
  return lets_bus_errors_through() ? FaultService::in_thread : FaultService::handler;
}

}  // namespace

/// One of the page I/O objects, while it is needed.
class Pager::Borrowed {
 public:
  explicit Borrowed(Pager& pager) : pager_(pager) {
    MutexLock lock(pager.page_ios_mutex_);
    pager.page_io_returned_.wait(lock, [&]() REQUIRES(pager.page_ios_mutex_) { return !pager.page_ios_.empty(); });
    page_io_ = std::move(pager.page_ios_.back());
    pager.page_ios_.pop_back();
  }
  ~Borrowed() {
    {
      const MutexLock lock(pager_.page_ios_mutex_);
      pager_.page_ios_.push_back(std::move(page_io_));
    }
    pager_.page_io_returned_.notify_one();
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;

  [[nodiscard]] PageIo& operator*() const { return *page_io_; }

 private:
  Pager& pager_;
  std::unique_ptr<PageIo> page_io_;
};

Pager::Pager(std::unique_ptr<PageIoSource> source, PagerOptions options, PagerRules rules)
    : process_(::getpid()),
      source_(std::move(source)),
      service_(chosen(options.service)),
      userfault_(service_),
      arena_(source_->pages()),
      frames_(budget_pages(options.budget_bytes)),
      mover_(arena_, userfault_, frames_, options.most_ahead_pages, options.fault_timeout, rules),
      stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      handlers_(source_->open()) {
  if (!stop_) throw errno_error("make", "an eventfd");
  for (std::size_t i = 0; i < kPageIos; ++i) page_ios_.push_back(source_->open());
  userfault_.watch(arena_.base(), arena_.bytes());
  try {
    start();
    test();
  } catch (...) {
    stop();
    throw;
  }
}

Pager::~Pager() { stop(); }

void Pager::start() {
  evictor_.emplace(arena_, mover_, frames_, source_->open());
  if (service_ == FaultService::handler) {
    handler_ = start_thread([this] { handle_until_stopped(); });
  } else {
    registration_.emplace(*this);
  }
}

// A child of fork has neither the arena nor the threads.
void Pager::stop() {
  if (::getpid() != process_) {
    if (handler_.joinable()) handler_.detach();
    if (evictor_) evictor_->forget_thread();
    return;
  }
  stopping_.store(true);
  const std::uint64_t one = 1;
  (void)!::write(stop_.get(), &one, sizeof one);
  if (handler_.joinable()) handler_.join();
  evictor_.reset();
}

// A real fault: what does not work is found here, not in the middle of the program.
void Pager::test() {
  auto* const word = reinterpret_cast<volatile std::uint64_t*>(arena_.base());
  const std::uint64_t before = *word;
  *word = before + 1;
  const bool works = before == 0 && *word == 1;
  discard(arena_.base(), kPageBytes);
  if (works && *word == 0 && mover_.counts().faults != 0) return;
  throw Error({"serve page faults with", "userfaultfd", "a page that was touched is not what it should be",
               "report this, with the kernel's version"});
}

void Pager::serve(void* address, bool is_write, PageIo& page_io) {
  const Status status = mover_.serve(arena_.page_of(address), is_write, page_io);
  if (status == Status::done) return;
  end_process("bring a page of far memory", status == Status::full
                                                ? "the budget is used up, and no page can leave: far memory is full"
                                                : to_string(status));
}

void Pager::serve_bus_error(void* address, bool is_write) {
  const Borrowed page_io(*this);
  serve(address, is_write, *page_io);
}

void Pager::handle_until_stopped() {
  std::array<pollfd, 2> waits{{{userfault_.descriptor(), POLLIN, 0}, {stop_.get(), POLLIN, 0}}};
  while (!stopping_.load()) {
    (void)::poll(waits.data(), waits.size(), -1);
    while (const auto fault = userfault_.next()) serve(fault->address, fault->is_write, *handlers_);
  }
}

void Pager::discard(void* begin, std::size_t bytes) {
  auto* const from = static_cast<std::byte*>(begin);
  const PageNumber first = arena_.page_of(from + kPageBytes - 1);
  const PageNumber end = arena_.page_of(from + bytes);
  if (end <= first) return;
  assert_that(end <= arena_.pages(), "what is discarded lies within the arena");
  const SignalsHeld held;  // a handler could touch a page that is locked here
  const Borrowed page_io(*this);
  mover_.discard(first, end - first, *page_io);
}

void Pager::advise(void* begin, std::size_t bytes, Hint hint) {
  if (bytes == 0) return;
  const PageNumber first = arena_.page_of(begin);
  const PageNumber count = arena_.page_of(static_cast<std::byte*>(begin) + bytes - 1) - first + 1;
  const SignalsHeld held;
  const MutexLock lock(pinned_mutex_);
  const std::uint64_t most = frames_.budget() / 4 * 3;
  const PageNumber more = hint == Hint::pinned ? mover_.not_pinned(first, count) : 0;
  if (pinned_pages_ + more > most) {
    throw UsageError(
        {"pin", format_bytes(std::uint64_t{more} * kPageBytes),
         "of the budget " + format_bytes((most - std::min(most, pinned_pages_)) * kPageBytes) + " may still be pinned",
         "give a larger budget"});
  }
  pinned_pages_ += static_cast<std::uint64_t>(mover_.advise(first, count, hint));
  assert_that(pinned_pages_ <= most, "no more pages are pinned than the budget bears");
  if (hint == Hint::pinned) bring(first, count);
}

// Writable as well: the kernel, on the program's behalf, may only touch what needs no fault.
void Pager::bring(PageNumber first, PageNumber count) {
  const Borrowed page_io(*this);
  for (PageNumber page = first; page < first + count; ++page) serve(arena_.at(page), true, *page_io);
}

}  // namespace farside::far
