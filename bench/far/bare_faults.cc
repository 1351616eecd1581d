#include "bench/far/bare_faults.h"

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "farside/base/error.h"

namespace farside::bench {

namespace {

const BareFaults* served = nullptr;

void on_bus_error(int /*signal*/, siginfo_t* info, void* /*context*/) { served->serve(info->si_addr); }

}  // namespace

BareFaults::BareFaults(std::size_t pages, std::byte* buffer, Fill fill)
    : bytes_(pages * kPageBytes),
      buffer_(buffer),
      fill_(std::move(fill)),
      userfault_(static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY))) {
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = UFFD_FEATURE_SIGBUS;
  if (!userfault_ || ::ioctl(userfault_.get(), UFFDIO_API, &api) != 0) throw errno_error("serve faults", "here");
  void* const place = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) throw errno_error("map memory", "for faults");
  base_ = static_cast<std::byte*>(place);
  ::madvise(base_, bytes_, MADV_NOHUGEPAGE);
  uffdio_register range{};
  range.range = {reinterpret_cast<std::uint64_t>(base_), bytes_};
  range.mode = UFFDIO_REGISTER_MODE_MISSING;
  if (::ioctl(userfault_.get(), UFFDIO_REGISTER, &range) != 0) throw errno_error("watch the faults of", "memory");
  served = this;
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  if (::sigaction(SIGBUS, &action, nullptr) != 0) throw errno_error("handle the signal", "SIGBUS");
}

BareFaults::~BareFaults() {
  ::munmap(base_, bytes_);
  served = nullptr;
}

void BareFaults::drop() const { ::madvise(base_, bytes_, MADV_DONTNEED); }

void BareFaults::serve(void* address) const {
  const std::size_t page = static_cast<std::size_t>(static_cast<std::byte*>(address) - base_) / kPageBytes;
  fill_(page);
  uffdio_copy request{};
  request.dst = reinterpret_cast<std::uint64_t>(base_) + page * kPageBytes;
  request.src = reinterpret_cast<std::uint64_t>(buffer_);
  request.len = kPageBytes;
  if (::ioctl(userfault_.get(), UFFDIO_COPY, &request) != 0) std::abort();
}

}  // namespace farside::bench
