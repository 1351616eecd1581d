// process.cc — how a program gets far memory when it starts, and how a child of fork does.
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/single_threaded.h>
#include <sys/uio.h>
#include <unistd.h>

#include "allocated.h"
#include "arena.h"
#include "connection.h"
#include "dropper.h"
#include "held.h"
#include "preload/system_call.h"
#include "ranges.h"

// Of libc, and in none of its headers: its streams, and the lock of their list.
extern "C" {
void _IO_list_lock();
void _IO_list_unlock();
FILE* _IO_iter_begin();
FILE* _IO_iter_end();
FILE* _IO_iter_next(FILE* at);
}

namespace farside::far_preload {

namespace {

using preload::system_call;

constexpr int kCannotJoin = 125;  // as env, timeout and others end when it is they who failed

// The arena, and then static arrays.
constinit DoorRange joined[DoorPacket::kRanges] = {};
constinit std::size_t joined_count = 0;

// From before a fork until after it.
Descriptor fork_connection;
constinit bool has_streams = false;

// Without the memory that it was promised a program would use up this machine's.
[[noreturn]] void give_up(const char* what, const char* why) {
  const char* const words[] = {"farside far: cannot ", what, ": ", why, "\n"};
  iovec parts[std::size(words)];
  for (std::size_t i = 0; i < std::size(words); ++i) parts[i] = {const_cast<char*>(words[i]), std::strlen(words[i])};
  system_call(SYS_writev, STDERR_FILENO, parts, std::size(words));
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
  give_up("have page faults served outside of the program",
          fd.get() == -EPERM ? "not permitted; as root: sysctl vm.unprivileged_userfaultfd=1, or give the user "
                               "/dev/userfaultfd"
                             : "the kernel has no userfaultfd, or a container does not allow the system call");
}

void advise_joined(int advice) {
  for (std::size_t i = 0; i < joined_count; ++i) {
    system_call(SYS_madvise, joined[i].address, joined[i].bytes, advice);
  }
}

// The part of a writable segment of the program that lies beyond the file's bytes.
void find_static_arrays(std::uint64_t threshold_bytes) {
  const auto* const headers = reinterpret_cast<const ElfW(Phdr)*>(getauxval(AT_PHDR));  // NOLINT
  const std::size_t count = getauxval(AT_PHNUM);
  std::uint64_t base = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (headers[i].p_type == PT_PHDR) base = reinterpret_cast<std::uint64_t>(headers) - headers[i].p_vaddr;
  }
  for (std::size_t i = 0; i < count && joined_count < std::size(joined); ++i) {
    if (headers[i].p_type != PT_LOAD || (headers[i].p_flags & PF_W) == 0) continue;
    const auto up = [](std::uint64_t address) { return (address + kPageBytes - 1) & ~(kPageBytes - 1); };
    const std::uint64_t begin = up(base + headers[i].p_vaddr + headers[i].p_filesz);
    const std::uint64_t end = up(base + headers[i].p_vaddr + headers[i].p_memsz);
    if (end <= begin || end - begin < threshold_bytes) continue;
    system_call(SYS_madvise, begin, end - begin, MADV_NOHUGEPAGE);
    joined[joined_count++] = {begin, end - begin};
  }
}

// From here on this process has far memory.
void join(const Descriptor& connection) {
  const Descriptor userfault = make_userfault();
  DoorPacket packet = packet_of(DoorKind::join);
  packet.count = joined_count;
  std::memcpy(packet.ranges.data(), joined, sizeof joined);
  if (!send(connection.get(), packet, userfault.get()) || !receive(connection.get(), packet)) {
    give_up("join", "farside far is gone");
  }
  if (packet.kind == DoorKind::refused) {
    auto* const text = reinterpret_cast<char*>(packet.ranges.data());
    text[packet.count < sizeof packet.ranges ? packet.count : sizeof packet.ranges - 1] = '\0';
    give_up("join", text);
  }
  if (packet.kind != DoorKind::joined) give_up("join", -EPROTO);
  set_token(packet.value);
  advise_joined(MADV_DONTFORK);
  if (const long error = start_dropper(connection, userfault, {joined, joined_count}); error != 0) {
    give_up("start a thread", error);
  }
}

void touch(const void* address, std::size_t bytes) {
  const auto* const first = static_cast<const volatile std::byte*>(address);
  static_cast<void>(first[0]);
  static_cast<void>(first[bytes - 1]);
}

// What libc uses in the child before our handler runs there: this thread's stack, and the locks of all streams.
void touch_what_libc_touches() {
  const auto here = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
  constexpr std::uint64_t kReach = 4 * kPageBytes;
  for (std::uint64_t at = here - kReach; at <= here + kReach && arena::contains(here); at += kPageBytes) {
    if (arena::contains(at)) touch(reinterpret_cast<const void*>(at), 1);  // NOLINT(performance-no-int-to-ptr)
  }
  if (!has_streams) return;
  for (FILE* stream = _IO_iter_begin(); stream != _IO_iter_end(); stream = _IO_iter_next(stream)) {
    touch(stream, sizeof *stream);
    if (stream->_lock != nullptr) touch(stream->_lock, 2 * sizeof(void*));
  }
}

// The last of all handlers before the fork, as it was registered first: nothing but libc comes between them.
void before_fork() {
  arena::hold();
  // libc's fork takes the list's lock, too, and lets the child have it; of one thread alone it does neither.
  has_streams = __libc_single_threaded == 0;
  DoorPacket packet;
  fork_connection = connect_to_door(packet);
  if (!fork_connection || !send(fork_connection.get(), packet_of(DoorKind::fork_begins)) ||
      !receive(fork_connection.get(), packet) || packet.kind != DoorKind::quiet) {
    fork_connection = Descriptor();
    has_streams = false;
    return;  // the child has no far memory: the arena is not copied
  }
  if (has_streams) _IO_list_lock();
  touch_what_libc_touches();
  advise_joined(MADV_DOFORK);
}

void in_parent() {
  advise_joined(MADV_DONTFORK);
  // Its close alone would not be seen: the child has the same connection.
  if (fork_connection) static_cast<void>(send(fork_connection.get(), packet_of(DoorKind::forked)));
  fork_connection = Descriptor();
  if (has_streams) _IO_list_unlock();
  arena::release();
}

void in_child() {
  if (!fork_connection) give_up("fork", "farside far does not answer");
  join(fork_connection);
  fork_connection = Descriptor();
  arena::release();
}

[[gnu::constructor]] void start(int /*count*/, char** /*arguments*/, char** environment) {
  const char* path = nullptr;
  const std::size_t name_bytes = std::strlen(far::kDoorVariable);
  for (char** entry = environment; *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, far::kDoorVariable, name_bytes) == 0 && (*entry)[name_bytes] == '=') {
      path = *entry + name_bytes + 1;
    }
  }
  if (path == nullptr) return;
  if (dlsym(RTLD_DEFAULT, "mallctl") == nullptr)
    give_up("preload", "libjemalloc.so.2 is missing; apt install libjemalloc2");

  const SignalsHeld signals;
  name_door(path);
  DoorPacket welcome;
  const Descriptor connection = connect_to_door(welcome);
  if (!connection) give_up("reach it", connection.get());
  if (const long error = arena::open(welcome.value, welcome.extra); error != 0) give_up("reserve addresses", error);
  joined[joined_count++] = arena::whole();
  find_static_arrays(welcome.extra);
  join(connection);
  farside_far_large_bytes = welcome.extra;
  if (pthread_atfork(before_fork, in_parent, in_child) != 0) give_up("prepare for fork", -ENOMEM);
}

}  // namespace

}  // namespace farside::far_preload
