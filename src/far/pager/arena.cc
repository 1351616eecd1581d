#include "far/pager/arena.h"

#include <array>
#include <cerrno>
#include <cstring>

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "farside/base/error.h"
#include "farside/base/units.h"

#include "far/pager/end.h"
#include "far/pager/page_io.h"

namespace farside::far {

namespace {

// Also what the program locked into memory (mlock): there it is safe from the kernel, not from the budget.
bool drop_range(const iovec& range) {
  return ::madvise(range.iov_base, range.iov_len, MADV_DONTNEED_LOCKED) == 0 ||
         ::madvise(range.iov_base, range.iov_len, MADV_DONTNEED) == 0;  // before Linux 5.18
}

// Not memcpy: what the program does to these bytes meanwhile is held up by the kernel, of which a race detector that
// stands behind memcpy knows nothing.
void copy_page(std::byte* to, const std::byte* from) {
#ifdef __x86_64__
  std::size_t left = kPageBytes;
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(left) : : "memory");
#else
  std::memcpy(to, from, kPageBytes);
#endif
}

}  // namespace

Arena::Arena(PageNumber pages) : bytes_(std::size_t{pages} * kPageBytes), process_(::getpid()) {
  void* const place =
      ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) {
    throw errno_error("set aside addresses for far memory of", format_bytes(bytes_),
                      "ask for less, or raise ulimit -v, or sysctl vm.max_map_count");
  }
  base_ = static_cast<std::byte*>(place);
  // A large page would come and go as a whole; and a child must not take what is absent here for zeros.
  ::madvise(base_, bytes_, MADV_NOHUGEPAGE);
  ::madvise(base_, bytes_, MADV_DONTFORK);
  self_ = Fd(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
}

// A child of fork may have something else there.
Arena::~Arena() {
  if (::getpid() == process_) ::munmap(base_, bytes_);
}

bool Arena::copy_out(std::span<const PageNumber> pages, std::byte* to) {
  for (std::size_t i = 0; i < pages.size(); ++i) copy_page(to + i * kPageBytes, at(pages[i]));
  return true;
}

void Arena::fail(std::string_view tried, std::string_view why) { end_process(tried, why); }

void Arena::drop(std::span<const PageNumber> pages) {
  std::array<iovec, PageIo::kPages> ranges{};
  std::size_t count = 0;
  std::size_t dropped = 0;
  const auto finish = [&] {
    if (count > 1 && self_ && takes_lists_.load(std::memory_order_relaxed)) {
      const long done = ::syscall(SYS_process_madvise, self_.get(), ranges.data(), count, MADV_DONTNEED_LOCKED, 0);
      if (done == static_cast<long>(dropped)) count = 0;
      if (done < 0) takes_lists_.store(false, std::memory_order_relaxed);
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (!drop_range(ranges.at(i))) fail("take a page of far memory away", std::strerror(errno));
    }
    count = 0;
    dropped = 0;
  };
  for_each_run(pages, [&](std::size_t begin, std::size_t length) {
    if (count == ranges.size()) finish();
    ranges.at(count++) = {at(pages[begin]), length * kPageBytes};
    dropped += length * kPageBytes;
  });
  finish();
}

}  // namespace farside::far
