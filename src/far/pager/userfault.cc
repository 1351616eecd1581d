#include "far/pager/userfault.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "farside/base/error.h"

namespace farside::far {

namespace {

constexpr const char* kDevice = "/dev/userfaultfd";

// Serving faults of the kernel itself (a system call that touches the memory) needs the right to do so; serving those
// of the program alone does not.
Fd open_descriptor(FaultService service) {
  const int flags = O_CLOEXEC | O_NONBLOCK;
  if (service == FaultService::in_thread) {
    Fd fd(static_cast<int>(::syscall(SYS_userfaultfd, flags | UFFD_USER_MODE_ONLY)));
    if (fd) return fd;
  }
  Fd fd(static_cast<int>(::syscall(SYS_userfaultfd, flags)));
  if (fd) return fd;
  const int refused = errno;
  if (const Fd device(::open(kDevice, O_RDWR | O_CLOEXEC)); device) {
    Fd from_device(::ioctl(device.get(), USERFAULTFD_IOC_NEW, flags));
    if (from_device) return from_device;
  }
  errno = refused;
  throw errno_error("serve page faults with", "userfaultfd",
                    refused == EPERM
                        ? "as root: sysctl vm.unprivileged_userfaultfd=1, or give the user /dev/userfaultfd"
                        : "the kernel must be built with CONFIG_USERFAULTFD, and a container must allow "
                          "the system call");
}

}  // namespace

Userfault::Userfault(FaultService service) : service_(service), fd_(open_descriptor(service)) {
  agree(service == FaultService::in_thread ? UFFD_FEATURE_SIGBUS : 0);
}

Userfault::Userfault(Fd received) : service_(FaultService::handler), fd_(std::move(received)) { agree(0); }

void Userfault::agree(std::uint64_t features) const {
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = UFFD_FEATURE_PAGEFAULT_FLAG_WP | features;
  if (::ioctl(fd_.get(), UFFDIO_API, &api) != 0) {
    throw errno_error("serve page faults with", "userfaultfd", "write-protection by it takes Linux 5.7 or newer");
  }
}

void Userfault::watch(std::byte* base, std::size_t bytes) const {
  uffdio_register range{};
  range.range = {reinterpret_cast<std::uint64_t>(base), bytes};
  range.mode = UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP;
  if (::ioctl(fd_.get(), UFFDIO_REGISTER, &range) != 0) throw errno_error("watch the faults of", "far memory");
}

int Userfault::copy(std::byte* to, const std::byte* from, std::size_t bytes, bool write_protected) const {
  while (bytes != 0) {
    uffdio_copy request{};
    request.dst = reinterpret_cast<std::uint64_t>(to);
    request.src = reinterpret_cast<std::uint64_t>(from);
    request.len = bytes;
    request.mode = write_protected ? UFFDIO_COPY_MODE_WP : 0;
    if (::ioctl(fd_.get(), UFFDIO_COPY, &request) == 0) return 0;
    if (errno != EAGAIN) return errno;
    const auto copied = static_cast<std::size_t>(request.copy > 0 ? request.copy : 0);
    to += copied;
    from += copied;
    bytes -= copied;
  }
  return 0;
}

int Userfault::map_zeros(std::byte* to, std::size_t bytes) const {
  while (bytes != 0) {
    uffdio_zeropage request{};
    request.range = {reinterpret_cast<std::uint64_t>(to), bytes};
    if (::ioctl(fd_.get(), UFFDIO_ZEROPAGE, &request) == 0) return 0;
    if (errno != EAGAIN) return errno;
    const auto mapped = static_cast<std::size_t>(request.zeropage > 0 ? request.zeropage : 0);
    to += mapped;
    bytes -= mapped;
  }
  return 0;
}

int Userfault::protect(std::byte* base, std::size_t bytes) const { return change_protection(base, bytes, true); }

int Userfault::unprotect(std::byte* base, std::size_t bytes) const { return change_protection(base, bytes, false); }

int Userfault::change_protection(std::byte* base, std::size_t bytes, bool on) const {
  uffdio_writeprotect request{};
  request.range = {reinterpret_cast<std::uint64_t>(base), bytes};
  request.mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0;
  while (::ioctl(fd_.get(), UFFDIO_WRITEPROTECT, &request) != 0) {
    if (errno != EAGAIN) return errno;
  }
  return 0;
}

void Userfault::wake(std::byte* base, std::size_t bytes) const {
  if (service_ == FaultService::in_thread) return;  // no thread sleeps in the kernel
  uffdio_range range{reinterpret_cast<std::uint64_t>(base), bytes};
  ::ioctl(fd_.get(), UFFDIO_WAKE, &range);
}

std::optional<Userfault::Fault> Userfault::next() const {
  uffd_msg message{};
  while (::read(fd_.get(), &message, sizeof message) == sizeof message) {
    if (message.event != UFFD_EVENT_PAGEFAULT) continue;
    const auto& of = message.arg.pagefault;
    return Fault{
        .address = reinterpret_cast<std::byte*>(of.address),  // NOLINT(performance-no-int-to-ptr): the kernel's
        .is_write = (of.flags & (UFFD_PAGEFAULT_FLAG_WRITE | UFFD_PAGEFAULT_FLAG_WP)) != 0};
  }
  return std::nullopt;
}

}  // namespace farside::far
