#include "fork_trap.h"

#include <csignal>
#include <cstddef>
#include <cstdint>

#include <dlfcn.h>
#include <linux/sched.h>
#include <sys/prctl.h>
#include <ucontext.h>

#include "cache_preload/system_call.h"
#include "held.h"
#include "ranges.h"

// libc's own would be trapped: it lies outside of this library.
extern "C" void farside_far_end_of_handler();
asm(R"(
.pushsection .text
.hidden farside_far_end_of_handler
.type farside_far_end_of_handler, @function
farside_far_end_of_handler:
  mov $15, %eax
  syscall
.size farside_far_end_of_handler, . - farside_far_end_of_handler
.popsection
)");

namespace farside::far_preload {

namespace {

using cache_preload::system_call;

constexpr unsigned long kRestorer = 0x04000000;  // SA_RESTORER, which only libc's own header has
constexpr int kUserDispatch = 2;                 // SYS_USER_DISPATCH
constexpr SignalsHeld::Mask kTrapSignal = SignalsHeld::Mask{1} << (SIGSYS - 1);

/// The kernel's.
struct Action {
  std::uint64_t handler;
  unsigned long flags;
  void (*restorer)();
  SignalsHeld::Mask mask;
};

// For the one thread that forks.
constexpr std::size_t kStackBytes = std::size_t{64} << 10U;
alignas(64) constinit std::byte stack[kStackBytes];
constinit SystemCall forking_call{};
constinit Action action_before{};
constinit ForkInOurPlace* fork_in_our_place = nullptr;

// Uses nothing of the program's stack, which may be far.
long fork_on_our_stack() {
  long result = 0;
  asm volatile(
      "mov %%rsp, %%rbx\n"
      "mov %[stack], %%rsp\n"
      "call *%[fork]\n"
      "mov %%rbx, %%rsp\n"
      : "=a"(result)
      : [stack] "r"(stack + kStackBytes), [fork] "r"(fork_in_our_place), "D"(&forking_call)
      : "rbx", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "cc", "memory");
  return result;
}

void end_trap() {
  system_call(SYS_prctl, PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF, 0, 0, 0);
  system_call(SYS_rt_sigaction, SIGSYS, &action_before, nullptr, sizeof(SignalsHeld::Mask));
}

bool makes_process(const SystemCall& call) {
  switch (call.number) {
    case SYS_fork: return true;
    case SYS_clone: return (call.words[0] & CLONE_VM) == 0;
    case SYS_clone3:
      return (reinterpret_cast<const clone_args*>(call.words[0])->flags & CLONE_VM) == 0;  // NOLINT: as the kernel does
    default: return false;
  }
}

// The mask that the program sees is what the handler returns to.
long change_mask(const SystemCall& call, SignalsHeld::Mask& mask) {
  SignalsHeld::restore(mask);
  const long result = call.make();
  SignalsHeld::hold(mask);
  mask &= ~kTrapSignal;
  return result;
}

// One that was not for us: as if we were not there.
void pass_on(int signal, siginfo_t* info, void* context) {
  const auto handler = action_before.handler;
  if (handler == reinterpret_cast<std::uint64_t>(SIG_IGN)) return;
  if (handler != reinterpret_cast<std::uint64_t>(SIG_DFL)) {
    return reinterpret_cast<void (*)(int, siginfo_t*, void*)>(handler)(signal, info, context);  // NOLINT
  }
  end_trap();
  system_call(SYS_tgkill, system_call(SYS_getpid), system_call(SYS_gettid), signal);
}

void on_system_call(int signal, siginfo_t* info, void* context) {
  if (info->si_code != kUserDispatch) return pass_on(signal, info, context);
  auto& words = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  auto& mask = *reinterpret_cast<SignalsHeld::Mask*>(&static_cast<ucontext_t*>(context)->uc_sigmask);
  const SystemCall call{info->si_syscall,
                        {words[REG_RDI], words[REG_RSI], words[REG_RDX], words[REG_R10], words[REG_R8], words[REG_R9]}};
  if (makes_process(call)) {
    end_trap();
    forking_call = call;
    words[REG_RAX] = fork_on_our_stack();
  } else if (call.number == SYS_rt_sigprocmask) {
    words[REG_RAX] = change_mask(call, mask);
  } else {
    words[REG_RAX] = call.make();
  }
}

}  // namespace

long SystemCall::make() const {
  return system_call(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

long trap_next_fork(ForkInOurPlace* fork) {
  dl_find_object library;
  if (_dl_find_object(reinterpret_cast<void*>(&farside_far_end_of_handler), &library) != 0) return -ENOENT;
  const auto begin = reinterpret_cast<std::uint64_t>(library.dlfo_map_start);
  const auto end = reinterpret_cast<std::uint64_t>(library.dlfo_map_end);
  fork_in_our_place = fork;
  const Action action{reinterpret_cast<std::uint64_t>(&on_system_call), SA_SIGINFO | kRestorer,
                      farside_far_end_of_handler, ~SignalsHeld::Mask{0}};
  long error = system_call(SYS_rt_sigaction, SIGSYS, &action, &action_before, sizeof action.mask);
  if (error != 0) return error;
  system_call(SYS_rt_sigprocmask, SIG_UNBLOCK, &kTrapSignal, nullptr, sizeof kTrapSignal);
  error = system_call(SYS_prctl, PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, begin, end - begin, 0);
  if (error != 0) system_call(SYS_rt_sigaction, SIGSYS, &action_before, nullptr, sizeof action.mask);
  return error;
}

}  // namespace farside::far_preload
