#include "dropper.h"

#include <algorithm>
#include <atomic>
#include <climits>
#include <csignal>
#include <span>

#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>

#include "cache_preload/system_call.h"

namespace farside::far_preload {

namespace {

using cache_preload::system_call;

constexpr std::size_t kStackBytes = std::size_t{64} << 10U;
alignas(64) constinit std::byte stack[kStackBytes];

struct Start {
  int connection;
  int userfault;
  DaemonPacket packet;     ///< `join`, and then the answer
  std::atomic<int> ready;  ///< 1 when there is one; or -errno
};
// Not on the stack of the thread that starts it: that may be far, and the dropper must wait for no page.
constinit Start start{};

[[noreturn]] void kill_process() {
  for (;;) system_call(SYS_kill, system_call(SYS_getpid), SIGKILL);
}

// All but two.
long close_others(int one, int other) {
  const auto [low, high] = std::minmax(one, other);
  long error = 0;
  const auto close_between = [&error](unsigned first, unsigned last) {
    if (first <= last && error == 0) error = system_call(SYS_close_range, first, last, 0);
  };
  if (low > 0) close_between(0, static_cast<unsigned>(low) - 1);
  if (low + 1 < high) close_between(static_cast<unsigned>(low) + 1, static_cast<unsigned>(high) - 1);
  close_between(static_cast<unsigned>(high) + 1, UINT_MAX);
  return error;
}

// A page that stays although it counts as dropped could be taken for another's bytes.
void drop(const AddressRange& range) {
  long error = system_call(SYS_madvise, range.address, range.bytes, MADV_DONTNEED);
  if (error == -EINVAL) error = system_call(SYS_madvise, range.address, range.bytes, MADV_DONTNEED_LOCKED);
  if (error != 0 && error != -ENOMEM) kill_process();  // ENOMEM: a part is not mapped, the rest was dropped
}

// In one call where the kernel can (Linux 6.13), which disturbs the processors of the program once.
void drop_all(std::span<const AddressRange> ranges, long self) {
  iovec parts[DaemonPacket::kRanges];
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    parts[i] = {reinterpret_cast<void*>(ranges[i].address), ranges[i].bytes};  // NOLINT(performance-no-int-to-ptr)
    bytes += ranges[i].bytes;
  }
  const bool is_list = self >= 0 && ranges.size() > 1;
  if (is_list && system_call(SYS_process_madvise, self, parts, ranges.size(), MADV_DONTNEED_LOCKED, 0) ==
                     static_cast<long>(bytes)) {
    return;
  }
  for (const AddressRange& range : ranges) drop(range);
}

bool lies_in(std::span<const AddressRange> joined, const AddressRange& range) {
  return std::ranges::any_of(joined, [&range](const AddressRange& one) {
    return range.address >= one.address && range.bytes <= one.bytes &&
           range.address - one.address <= one.bytes - range.bytes;
  });
}

void take_pages_away(int connection, std::span<const AddressRange> joined) {
  const Descriptor self(system_call(SYS_pidfd_open, system_call(SYS_getpid), 0));
  DaemonPacket packet;
  while (receive(connection, packet)) {
    if (packet.kind != DaemonPacketKind::drop) break;
    const std::span ranges(packet.ranges.data(), packet.count);
    if (!std::ranges::all_of(ranges, [joined](const AddressRange& range) { return lies_in(joined, range); })) break;
    drop_all(ranges, self.get());
    packet.kind = DaemonPacketKind::dropped;
    packet.count = 0;
    if (!send(connection, packet)) break;
  }
}

// Its own table of descriptors has but these two.
int join() {
  if (const long error = close_others(start.connection, start.userfault); error != 0) return static_cast<int>(error);
  system_call(SYS_chdir, "/");  // holds no directory either
  system_call(SYS_prctl, PR_SET_NAME, "farside-far");
  if (!send(start.connection, start.packet, start.userfault)) return -EPIPE;
  return receive(start.connection, start.packet) ? 1 : -EPIPE;
}

int run(void* /*argument*/) {
  AddressRange joined[DaemonPacket::kRanges];
  const std::span<const AddressRange> ranges(joined, start.packet.count);
  std::ranges::copy(std::span(start.packet.ranges).first(ranges.size()), joined);
  const int connection = start.connection;
  const int ready = join();
  const bool has_joined = ready == 1 && start.packet.kind == DaemonPacketKind::joined;
  start.ready.store(ready);
  system_call(SYS_futex, &start.ready, FUTEX_WAKE_PRIVATE, 1);
  if (!has_joined) return 0;  // the program ends
  wait_without_limit(connection);
  take_pages_away(connection, ranges);
  kill_process();
}

}  // namespace

long start_dropper(const Descriptor& main_connection, const Descriptor& userfault, DaemonPacket& packet) {
  start.connection = main_connection.get();
  start.userfault = userfault.get();
  start.packet = packet;
  start.ready.store(0);  // of a child: its parent's
  // Not CLONE_FILES and not CLONE_FS: copies.
  constexpr int kFlags = CLONE_VM | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
  if (clone(run, stack + kStackBytes, kFlags, nullptr) < 0) return -errno;
  while (start.ready.load() == 0) system_call(SYS_futex, &start.ready, FUTEX_WAIT_PRIVATE, 0, nullptr);
  packet = start.packet;
  return start.ready.load() == 1 ? 0 : start.ready.load();
}

}  // namespace farside::far_preload
