// process.cc — how a program gets far memory when it starts, and how a child of fork does.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <span>

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/rseq.h>
#include <sys/uio.h>
#include <unistd.h>

#include "allocated.h"
#include "arena.h"
#include "cache_preload/system_call.h"
#include "connection.h"
#include "direct_reads.h"
#include "dropper.h"
#include "fork_trap.h"
#include "fork_window.h"
#include "held.h"
#include "pinning_filter.h"
#include "ranges.h"
#include "static_programs.h"

namespace farside::far_preload {

namespace {

using cache_preload::system_call;

constexpr int kCannotJoin = 125;  // as env, timeout and others end when they themselves failed

constinit long trap_error = 0;  // of the fork under way

void complain(const char* what, const char* why) {
  const char* const words[] = {"farside far: cannot ", what, ": ", why, "\n"};
  iovec parts[std::size(words)];
  for (std::size_t i = 0; i < std::size(words); ++i) parts[i] = {const_cast<char*>(words[i]), std::strlen(words[i])};
  system_call(SYS_writev, STDERR_FILENO, parts, std::size(words));
}

// Without the memory that it was promised a program would use up this machine's.
[[noreturn]] void give_up(const char* what, const char* why) {
  complain(what, why);
  for (;;) system_call(SYS_exit_group, kCannotJoin);
}

[[noreturn]] void give_up(const char* what, long error) { give_up(what, strerrordesc_np(static_cast<int>(-error))); }

Descriptor make_userfault() {
  constexpr int kFlags = O_CLOEXEC | O_NONBLOCK;
  Descriptor fd(system_call(SYS_userfaultfd, kFlags));
  if (fd) return fd;
  if (const Descriptor device(system_call(SYS_openat, AT_FDCWD, "/dev/userfaultfd", O_RDWR | O_CLOEXEC)); device) {
    Descriptor from_device(system_call(SYS_ioctl, device.get(), USERFAULTFD_IOC_NEW, kFlags));
    if (from_device) return from_device;
  }
  if (fd.get() == -EMFILE)
    give_up("have page faults served outside of the program", "no descriptor is free (ulimit -n)");
  give_up("have page faults served outside of the program",
          fd.get() == -EPERM ? "not permitted; as root: sysctl vm.unprivileged_userfaultfd=1, or give the user "
                               "/dev/userfaultfd"
                             : "the kernel has no userfaultfd, or a container does not allow the system call");
}

void advise_joined(int advice) {
  for (const AddressRange& zone : arena::zones()) system_call(SYS_madvise, zone.address, zone.bytes, advice);
}

// The parts of writable segments of the program that lie beyond the file's bytes, so far as there is room in `found`.
std::size_t find_static_arrays(std::uint64_t threshold_bytes, std::span<AddressRange> found) {
  const auto* const headers = reinterpret_cast<const ElfW(Phdr)*>(getauxval(AT_PHDR));  // NOLINT
  const std::size_t count = getauxval(AT_PHNUM);
  std::uint64_t base = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (headers[i].p_type == PT_PHDR) base = reinterpret_cast<std::uint64_t>(headers) - headers[i].p_vaddr;
  }
  std::size_t found_count = 0;
  for (std::size_t i = 0; i < count && found_count < found.size(); ++i) {
    if (headers[i].p_type != PT_LOAD || (headers[i].p_flags & PF_W) == 0) continue;
    const auto up = [](std::uint64_t address) { return (address + kPageBytes - 1) & ~(kPageBytes - 1); };
    const std::uint64_t begin = up(base + headers[i].p_vaddr + headers[i].p_filesz);
    const std::uint64_t end = up(base + headers[i].p_vaddr + headers[i].p_memsz);
    if (end <= begin || end - begin < threshold_bytes) continue;
    system_call(SYS_madvise, begin, end - begin, MADV_NOHUGEPAGE);
    found[found_count++] = {begin, end - begin};
  }
  return found_count;
}

// From here on this process has far memory.
void join(const Descriptor& connection) {
  const Descriptor userfault = make_userfault();
  DaemonPacket packet = packet_of(DaemonPacketKind::join);
  packet.count = arena::zones().size();
  std::ranges::copy(arena::zones(), packet.ranges.begin());
  if (const long error = start_dropper(connection, userfault, packet); error == -EPIPE) {
    give_up("join", "farside far is gone");
  } else if (error != 0) {
    give_up("start a thread", error);
  }
  if (packet.kind == DaemonPacketKind::refused) {
    auto* const text = reinterpret_cast<char*>(packet.ranges.data());
    text[packet.count < sizeof packet.ranges ? packet.count : sizeof packet.ranges - 1] = '\0';
    give_up("join", text);
  }
  if (packet.kind != DaemonPacketKind::joined) give_up("join", -EPROTO);
  set_token(packet.value);
  advise_joined(MADV_DONTFORK);
}

// Touches what the kernel writes for a thread, into memory that may be far: its number, where clone's fourth word says,
// and where it runs (rseq).
void touch_what_the_kernel_writes(const SystemCall& call) {
  const auto touch = [](std::uint64_t address, std::size_t bytes) {
    const auto* const first =
        reinterpret_cast<const volatile std::byte*>(address);  // NOLINT(performance-no-int-to-ptr)
    static_cast<void>(first[0]);
    static_cast<void>(first[bytes - 1]);
  };
  if (call.number == SYS_clone && (call.words[0] & CLONE_CHILD_SETTID) != 0) {
    touch(static_cast<std::uint64_t>(call.words[3]), sizeof(pid_t));
  }
  if (__rseq_size != 0) {
    touch(reinterpret_cast<std::uint64_t>(__builtin_thread_pointer()) + static_cast<std::uint64_t>(__rseq_offset),
          sizeof(struct rseq));
  }
}

// The descriptors that a fork takes of the program: the child joins by a connection that it inherits, and makes its
// userfaultfd in the place of the spare ones.
class ForkDescriptors {
 public:
  explicit ForkDescriptors(DaemonPacket& welcome) {
    open(welcome);
    if (!lacks_some()) return;
    rlimit raised{};
    system_call(SYS_prlimit64, 0, RLIMIT_NOFILE, nullptr, &limit_);
    raised = {std::min(limit_.rlim_cur + kTaken, limit_.rlim_max), limit_.rlim_max};
    is_raised_ = system_call(SYS_prlimit64, 0, RLIMIT_NOFILE, &raised, nullptr) == 0;
    open(welcome);
  }
  ~ForkDescriptors() {
    if (is_raised_) system_call(SYS_prlimit64, 0, RLIMIT_NOFILE, &limit_, nullptr);
  }
  ForkDescriptors(const ForkDescriptors&) = delete;
  ForkDescriptors& operator=(const ForkDescriptors&) = delete;

  [[nodiscard]] bool lacks_some() const {
    return connection_.get() == -EMFILE || (connection_ && (!spare_[0] || !spare_[1]));
  }
  [[nodiscard]] const Descriptor& connection() const { return connection_; }
  void close_spare() {
    for (Descriptor& each : spare_) each = Descriptor();
  }

 private:
  static constexpr rlim_t kTaken = 3;

  void open(DaemonPacket& welcome) {
    close_spare();
    connection_ = Descriptor();
    connection_ = connect_to_daemon(welcome);
    if (!connection_) return;
    for (Descriptor& each : spare_) each = Descriptor(system_call(SYS_fcntl, connection_.get(), F_DUPFD_CLOEXEC, 0));
  }

  Descriptor connection_;
  Descriptor spare_[2];
  rlimit limit_{};
  bool is_raised_ = false;
};

// Until it has joined, a child has of the arena what its parent had at the fork. Nothing else is written there before.
// The fork window is taken on one condition, and given up on the same one: clang cannot follow that.
long fork_with_far_memory(const SystemCall& call) NO_THREAD_SAFETY_ANALYSIS {
  DaemonPacket packet;
  ForkDescriptors descriptors(packet);
  if (descriptors.lacks_some()) {
    complain("fork", "no descriptor is free (ulimit -n)");
    return -EAGAIN;
  }
  const Descriptor& connection = descriptors.connection();
  const bool is_quiet = connection && send(connection.get(), packet_of(DaemonPacketKind::fork_begins)) &&
                        receive(connection.get(), packet) && packet.kind == DaemonPacketKind::quiet;
  if (is_quiet) {
    touch_what_the_kernel_writes(call);
    fork_window.lock();
    advise_joined(MADV_DOFORK);
  }
  const long result = call.make();
  if (result == 0) {
    if (!is_quiet) give_up("fork", "farside far does not answer");
    fork_window.unlock();
    descriptors.close_spare();
    join(connection);
  } else if (is_quiet) {
    advise_joined(MADV_DONTFORK);
    fork_window.unlock();
    // Its close alone would not be seen: the child has the same connection.
    static_cast<void>(send(connection.get(), packet_of(DaemonPacketKind::forked)));
  }
  return result;
}

// The last of all handlers before the fork, as it was registered first.
void before_fork() {
  arena::hold();
  trap_error = trap_next_fork(fork_with_far_memory);
}

void in_parent() { arena::release(); }

// Not joined, it has no arena: it was not copied.
void in_child() {
  if (trap_error != 0) give_up("fork, for which it takes the system calls of libc over (Linux 5.11)", trap_error);
  arena::release();
}

// libc's own `environ` is not set yet: this library is initialised first.
[[gnu::constructor]] void start(int /*count*/, char** /*arguments*/, char** environment) {
  if (getauxval(AT_SECURE) != 0) return;  // a caller with fewer rights chose the path
  const char* path = nullptr;
  const std::size_t name_bytes = std::strlen(far::kDaemonVariable);
  for (char** entry = environment; *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, far::kDaemonVariable, name_bytes) == 0 && (*entry)[name_bytes] == '=') {
      path = *entry + name_bytes + 1;
    }
  }
  if (path == nullptr) return;
  if (dlsym(RTLD_DEFAULT, "mallctl") == nullptr)
    give_up("preload", "libjemalloc.so.2 is missing; apt install libjemalloc2");
  // Bytes that a device reads for a stream into memory that leaves would be lost without a word.
  if (!take_over_streams()) give_up("take over the reads of libc's streams", "this libc is not one that it knows");

  const SignalsHeld signals;
  if (const long error = forbid_pinning(); error != 0) give_up("forbid what would write past page tables", error);
  name_daemon(path);
  DaemonPacket welcome;
  const Descriptor connection = connect_to_daemon(welcome);
  if (!connection) give_up("reach it", connection.get());
  AddressRange static_arrays[DaemonPacket::kRanges - 1];
  const std::size_t count = find_static_arrays(welcome.extra, static_arrays);
  const long error = arena::open(welcome.value, welcome.extra, {static_arrays, count});
  if (error != 0) give_up("reserve addresses", error);
  join(connection);
  farside_far_large_bytes = welcome.extra;
  if (pthread_atfork(before_fork, in_parent, in_child) != 0) give_up("prepare for fork", -ENOMEM);
  watch_for_static_programs();
}

}  // namespace

}  // namespace farside::far_preload
