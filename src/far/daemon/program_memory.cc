#include "far/daemon/program_memory.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <limits>
#include <string>

#include <fcntl.h>
#include <linux/kcmp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "farside/base/error.h"
#include "farside/base/log.h"

#include "far/daemon/packets.h"
#include "far/pager/page_io.h"

namespace farside::far {

namespace {

constexpr int kGraceMs = 1000;

Fd open_of(pid_t process, const char* what) {
  const std::string path = "/proc/" + std::to_string(process) + "/" + what;
  Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) throw errno_error("open", path);
  return file;
}

}  // namespace

PageRanges::PageRanges(std::span<const AddressRange> ranges) {
  std::uint64_t next = 0;
  const auto number = [&](const AddressRange& range) {
    const std::uint64_t count = range.bytes / kPageBytes;
    if (next + count >= std::numeric_limits<PageNumber>::max()) {
      throw Error({"serve", "a program's memory", "it is too large for one table", "give a smaller --far"});
    }
    for (const Piece& other : pieces_) {
      if (range.address < other.end() && other.address < range.address + range.bytes) {
        throw Error({"serve", "a program's memory", "its ranges overlap", {}});
      }
    }
    pieces_.push_back({range.address, static_cast<PageNumber>(next), static_cast<PageNumber>(count)});
    next += count + 1;
  };
  if (ranges.empty()) throw Error({"serve", "a program's memory", "it names none", {}});
  for (const AddressRange& range : ranges.subspan(1)) number(range);
  number(ranges.front());
}

std::uint64_t PageRanges::address_of(PageNumber page) const {
  const auto holds = [page](const Piece& piece) { return page >= piece.first && page - piece.first <= piece.count; };
  const Piece& piece = holds(arena()) ? arena() : *std::ranges::find_if(pieces_, holds);
  return piece.address + std::uint64_t{page - piece.first} * kPageBytes;
}

std::optional<PageNumber> PageRanges::page_of(std::uint64_t address) const {
  for (const Piece& piece : pieces_) {
    if (address >= piece.address && address < piece.end()) {
      return piece.first + static_cast<PageNumber>((address - piece.address) / kPageBytes);
    }
  }
  return std::nullopt;
}

bool PageRanges::operator==(const PageRanges& other) const {
  return std::ranges::equal(pieces_, other.pieces_, [](const Piece& a, const Piece& b) {
    return a.address == b.address && a.first == b.first && a.count == b.count;
  });
}

ProgramMemory::ProgramMemory(pid_t process, std::shared_ptr<const Fd> connection, PageRanges ranges)
    : process_(process),
      connection_(std::move(connection)),
      ranges_(std::move(ranges)),
      handle_(static_cast<int>(::syscall(SYS_pidfd_open, process, 0))),
      bytes_(open_of(process, "mem")) {
  if (!handle_) throw errno_error("hold on to", "process " + std::to_string(process));
}

std::byte* ProgramMemory::at(PageNumber page) const {
  return reinterpret_cast<std::byte*>(ranges_.address_of(page));  // NOLINT(performance-no-int-to-ptr): another's
}

// This file also has what the program itself may not read.
bool ProgramMemory::copy_out(std::span<const PageNumber> pages, std::byte* to) {
  bool all = true;
  int error = 0;
  for_each_run(pages, [&](std::size_t begin, std::size_t length) {
    std::size_t done = 0;
    while (all && done < length * kPageBytes) {
      const ssize_t got = ::pread(bytes_.get(), to + begin * kPageBytes + done, length * kPageBytes - done,
                                  static_cast<off_t>(ranges_.address_of(pages[begin]) + done));
      error = got < 0 ? errno : 0;
      all = got > 0 || error == EINTR;
      if (got > 0) done += static_cast<std::size_t>(got);
    }
  });
  if (!all && error != 0 && error != ESRCH) fail("read a page of far memory", "it is not there any more");
  return all;
}

void ProgramMemory::drop(std::span<const PageNumber> pages) {
  if (pages.empty()) return;
  std::array<AddressRange, PageIo::kPages> ranges{};
  std::size_t count = 0;
  for_each_run(pages, [&](std::size_t begin, std::size_t length) {
    ranges.at(count++) = {ranges_.address_of(pages[begin]), length * kPageBytes};
  });
  const MutexLock lock(dropping_);
  ask_to_drop({ranges.data(), count});
}

void ProgramMemory::ask_to_drop(std::span<const AddressRange> ranges) {
  if (!send(*connection_, DaemonPacketKind::drop, ranges)) return;
  for (;;) {
    const auto answer = receive(*connection_);
    if (answer && answer->packet.kind == DaemonPacketKind::forked)
      continue;  // of its parent, which was slower than its join
    if (!answer || answer->packet.kind != DaemonPacketKind::dropped) ::shutdown(connection_->get(), SHUT_RDWR);
    return;
  }
}

void ProgramMemory::fail(std::string_view tried, std::string_view why) {
  if (failed_.exchange(true)) return;
  log::error("cannot " + std::string(tried) + ": " + std::string(why) + "; process " + std::to_string(process_) +
             " ends");
  signal(SIGBUS);
  pollfd wait{connection_->get(), POLLRDHUP, 0};
  if (::poll(&wait, 1, kGraceMs) == 0) kill();
}

bool ProgramMemory::is_of(pid_t process) const {
  return process == process_ || ::syscall(SYS_kcmp, process, process_, KCMP_VM, 0, 0) == 0;
}

bool ProgramMemory::is_gone() const {
  pollfd wait{connection_->get(), POLLRDHUP, 0};
  return ::poll(&wait, 1, 0) != 0;
}

void ProgramMemory::kill() const { signal(SIGKILL); }

void ProgramMemory::signal(int number) const { ::syscall(SYS_pidfd_send_signal, handle_.get(), number, nullptr, 0); }

std::vector<bool> ProgramMemory::present(PageNumber first, PageNumber count) const {
  constexpr std::uint64_t kPresent = 1ULL << 63U;
  constexpr std::uint64_t kSwapped = 1ULL << 62U;
  const Fd page_map = open_of(process_, "pagemap");
  std::vector<std::uint64_t> entries(count);
  const auto bytes = static_cast<ssize_t>(std::uint64_t{count} * sizeof(std::uint64_t));
  const auto offset = static_cast<off_t>(ranges_.address_of(first) / kPageBytes * sizeof(std::uint64_t));
  if (::pread(page_map.get(), entries.data(), static_cast<std::size_t>(bytes), offset) != bytes) {
    throw errno_error("read the page map of", "process " + std::to_string(process_));
  }
  std::vector<bool> is_present(count);
  for (PageNumber i = 0; i < count; ++i) is_present[i] = (entries[i] & (kPresent | kSwapped)) != 0;
  return is_present;
}

}  // namespace farside::far
