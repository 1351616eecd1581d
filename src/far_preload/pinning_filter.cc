#include "pinning_filter.h"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "cache_preload/system_call.h"

namespace farside::far_preload {

namespace {

using cache_preload::system_call;

constexpr sock_filter load(std::size_t offset) {
  return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset));
}
constexpr sock_filter skip_unless(std::uint32_t value, std::uint8_t count) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, count);
}
constexpr sock_filter skip_unless_any(std::uint32_t bits, std::uint8_t count) {
  return BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, count);
}
constexpr sock_filter fail_with(std::uint32_t error) { return BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error); }
constexpr sock_filter kAllow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);

constexpr std::uint32_t kOfX32 = 0x40000000;  // in the number of a call

// As kernels answer that have none of them, so that programs do it in another way. By i386's calls (int 0x80) a program
// reaches its static arrays if it is not position-independent. One of those, socketcall, stays allowed: 32-bit libcs
// make all sockets by it, and of which kind is not among the words that a filter sees. The calls of x32, which Debian's
// kernels have switched off, are refused as a whole.
constexpr sock_filter kProgram[] = {
    load(offsetof(seccomp_data, arch)),
    skip_unless(AUDIT_ARCH_I386, 20),
    load(offsetof(seccomp_data, nr)),
    skip_unless(425, 1),  // io_uring_setup
    fail_with(ENOSYS),
    skip_unless(426, 1),  // io_uring_enter
    fail_with(ENOSYS),
    skip_unless(427, 1),  // io_uring_register
    fail_with(ENOSYS),
    skip_unless(245, 1),  // io_setup
    fail_with(ENOSYS),
    skip_unless(348, 1),  // process_vm_writev
    fail_with(ENOSYS),
    skip_unless(316, 1),  // vmsplice
    fail_with(EINVAL),
    skip_unless(359, 5),  // socket, as below
    load(offsetof(seccomp_data, args)),
    skip_unless(AF_ALG, 1),
    fail_with(EAFNOSUPPORT),
    skip_unless(AF_XDP, 1),
    fail_with(EAFNOSUPPORT),
    kAllow,
    skip_unless(AUDIT_ARCH_X86_64, 21),
    load(offsetof(seccomp_data, nr)),
    skip_unless_any(kOfX32, 1),
    fail_with(ENOSYS),
    skip_unless(SYS_io_uring_setup, 1),
    fail_with(ENOSYS),
    skip_unless(SYS_io_uring_enter, 1),  // of a ring that the program was given
    fail_with(ENOSYS),
    skip_unless(SYS_io_uring_register, 1),
    fail_with(ENOSYS),
    skip_unless(SYS_io_setup, 1),
    fail_with(ENOSYS),
    skip_unless(SYS_process_vm_writev, 1),
    fail_with(ENOSYS),
    skip_unless(SYS_vmsplice, 1),
    fail_with(EINVAL),
    skip_unless(SYS_socket, 5),
    load(offsetof(seccomp_data, args)),  // the low half of the first
    skip_unless(AF_ALG, 1),              // encrypts into the pages of a read
    fail_with(EAFNOSUPPORT),
    skip_unless(AF_XDP, 1),  // network devices write into memory that was registered
    fail_with(EAFNOSUPPORT),
    kAllow,
};

}  // namespace

std::span<const sock_filter> pinning_filter() { return kProgram; }

// A process that may not install a filter and start set-user-ID programs gives the latter up.
long forbid_pinning() {
  if (system_call(SYS_vmsplice, -1, nullptr, 0, 0) == -EINVAL) return 0;  // of no descriptor, by the filter
  const sock_fprog program{std::size(kProgram), const_cast<sock_filter*>(kProgram)};
  const auto set = [&program](unsigned flags) {
    return system_call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
  };
  long error = set(SECCOMP_FILTER_FLAG_SPEC_ALLOW);
  if (error == -EACCES && system_call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0) {
    error = set(SECCOMP_FILTER_FLAG_SPEC_ALLOW);
  }
  return error;
}

}  // namespace farside::far_preload
