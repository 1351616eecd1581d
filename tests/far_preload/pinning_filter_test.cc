// What the filter makes of system calls, also of those that this machine's kernel does not have.
#include "far_preload/pinning_filter.h"

#include <cerrno>
#include <cstdint>
#include <cstring>

#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sys/socket.h>
#include <sys/syscall.h>

namespace farside::far_preload {
namespace {

constexpr int kAllowed = 0;
constexpr int kNoAction = -1;  // of a filter that is wrong

std::uint32_t word_at(const seccomp_data& call, std::uint32_t offset) {
  std::uint32_t word = 0;
  std::memcpy(&word, reinterpret_cast<const char*>(&call) + offset, sizeof word);
  return word;
}

// The error that a call ends with, by the instructions that the filter is made of.
int error_of(const seccomp_data& call) {
  const auto program = pinning_filter();
  std::uint32_t accumulator = 0;
  for (std::size_t at = 0; at < program.size(); ++at) {
    const sock_filter& each = program[at];
    switch (each.code) {
      case BPF_LD | BPF_W | BPF_ABS: accumulator = word_at(call, each.k); break;
      case BPF_JMP | BPF_JEQ | BPF_K: at += accumulator == each.k ? each.jt : each.jf; break;
      case BPF_JMP | BPF_JSET | BPF_K: at += (accumulator & each.k) != 0 ? each.jt : each.jf; break;
      case BPF_RET | BPF_K:
        if (each.k == SECCOMP_RET_ALLOW) return kAllowed;
        return (each.k & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO ? static_cast<int>(each.k & SECCOMP_RET_DATA)
                                                                       : kNoAction;
      default: return kNoAction;
    }
  }
  return kNoAction;
}

int error_of(std::uint32_t architecture, int number, std::uint64_t first = 0) {
  return error_of({number, architecture, 0, {first, 0, 0, 0, 0, 0}});
}
int error_in_64_bits(long number, std::uint64_t first = 0) {
  return error_of(AUDIT_ARCH_X86_64, static_cast<int>(number), first);
}
int error_in_32_bits(int number, std::uint64_t first = 0) { return error_of(AUDIT_ARCH_I386, number, first); }

TEST(PinningFilter, RefusesWhatLetsTheKernelWriteLater) {
  for (const long number :
       {SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register, SYS_io_setup, SYS_process_vm_writev}) {
    EXPECT_EQ(error_in_64_bits(number), ENOSYS) << number;
  }
  EXPECT_EQ(error_in_64_bits(SYS_vmsplice), EINVAL);
  EXPECT_EQ(error_in_64_bits(SYS_socket, AF_ALG), EAFNOSUPPORT);
  EXPECT_EQ(error_in_64_bits(SYS_socket, AF_XDP), EAFNOSUPPORT);
  constexpr int kOfX32 = 0x40000000;
  EXPECT_EQ(error_in_64_bits(kOfX32 | SYS_read), ENOSYS);
}

TEST(PinningFilter, RefusesTheSameCallsOfI386) {
  for (const int number : {425, 426, 427, 245, 348}) EXPECT_EQ(error_in_32_bits(number), ENOSYS) << number;
  constexpr int kVmsplice = 316;
  constexpr int kSocket = 359;
  EXPECT_EQ(error_in_32_bits(kVmsplice), EINVAL);
  EXPECT_EQ(error_in_32_bits(kSocket, AF_ALG), EAFNOSUPPORT);
  EXPECT_EQ(error_in_32_bits(kSocket, AF_XDP), EAFNOSUPPORT);
}

TEST(PinningFilter, AllowsAllElse) {
  for (const long number : {SYS_read, SYS_mmap, SYS_clone, SYS_seccomp, SYS_process_madvise}) {
    EXPECT_EQ(error_in_64_bits(number), kAllowed) << number;
  }
  constexpr int kSocket = 359;
  constexpr int kSocketCall = 102;
  for (const std::uint64_t family : {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK}) {
    EXPECT_EQ(error_in_64_bits(SYS_socket, family), kAllowed) << family;
    EXPECT_EQ(error_in_32_bits(kSocket, family), kAllowed) << family;
  }
  EXPECT_EQ(error_in_32_bits(kSocketCall, 1), kAllowed);
  EXPECT_EQ(error_in_32_bits(3), kAllowed);
  EXPECT_EQ(error_of(AUDIT_ARCH_AARCH64, SYS_io_uring_setup), kAllowed);
}

}  // namespace
}  // namespace farside::far_preload
