#include "tests/far_preload/stand_in_daemon.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace farside::test {

namespace {

using far::AddressRange;
using far::DaemonPacket;
using far::DaemonPacketKind;

constexpr std::uint64_t kPage = 4096;

DaemonPacket packet_of(DaemonPacketKind kind, std::uint64_t value = 0, std::uint64_t extra = 0) {
  DaemonPacket packet{};
  packet.kind = kind;
  packet.version = far::kDaemonVersion;
  packet.value = value;
  packet.extra = extra;
  return packet;
}

void check(bool good, const char* what) {
  if (good) return;
  std::perror(what);
  std::abort();
}

void send(const Fd& to, const DaemonPacket& packet) {
  static_cast<void>(::send(to.get(), &packet, DaemonPacket::bytes(packet.count), MSG_NOSIGNAL));  // it may have ended
}

void protect(int userfault, std::uint64_t page, bool on) {
  uffdio_writeprotect request{};
  request.range = {page, kPage};
  request.mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0;
  ::ioctl(userfault, UFFDIO_WRITEPROTECT, &request);
}

}  // namespace

StandInDaemon::StandInDaemon(StandInOptions options) : options_(options) {
  std::string name = std::filesystem::temp_directory_path() / "farside-stand-in-XXXXXX";
  check(::mkdtemp(name.data()) != nullptr, "mkdtemp");
  directory_ = name;
  listener_ = Fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  stop_ = Fd(::eventfd(0, EFD_CLOEXEC));
  const int on = 1;
  check(::setsockopt(listener_.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0, "SO_PASSCRED");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, socket().c_str(), sizeof address.sun_path - 1);
  check(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0, "bind");
  check(::listen(listener_.get(), 64) == 0, "listen");
  thread_ = std::thread([this] { serve(); });
}

StandInDaemon::~StandInDaemon() {
  check(::eventfd_write(stop_.get(), 1) == 0, "eventfd");
  thread_.join();
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

void StandInDaemon::serve() {
  for (;;) {
    std::vector<pollfd> watched{{stop_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    for (const auto& connection : connections_) {
      watched.push_back({connection->fd.get(), POLLIN, 0});
      watched.push_back({connection->process ? connection->process->userfault.get() : -1, POLLIN, 0});
    }
    if (::poll(watched.data(), watched.size(), -1) < 0) continue;
    if (watched[0].revents != 0) return;
    const std::size_t known = connections_.size();
    for (std::size_t i = 0; i < known; ++i) {
      if (watched[2 * i + 3].revents != 0) serve_faults(*connections_[i]);
      if (watched[2 * i + 2].revents != 0 && !obey(*connections_[i])) connections_[i] = nullptr;
    }
    if (watched[1].revents != 0) send_hello();
    std::erase(connections_, nullptr);
  }
}

void StandInDaemon::send_hello() {
  Fd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!fd) return;
  send(fd, packet_of(DaemonPacketKind::welcome, options_.arena_bytes, options_.threshold_bytes));
  connections_.push_back(std::make_unique<Connection>(Connection{std::move(fd), nullptr, nullptr}));
}

std::shared_ptr<StandInDaemon::Process> StandInDaemon::process_with(std::uint64_t token) const {
  for (const auto& connection : connections_) {
    if (connection && connection->process && static_cast<std::uint64_t>(connection->process->pid) == token) {
      return connection->process;
    }
  }
  return nullptr;
}

StandInDaemon::Connection& StandInDaemon::main_connection(const Process& process) {
  const auto found = std::ranges::find_if(
      connections_, [&](const auto& connection) { return connection && connection->process.get() == &process; });
  check(found != connections_.end(), "a process without a connection");
  return **found;
}

// False when the connection has ended.
bool StandInDaemon::obey(Connection& connection) {
  DaemonPacket packet{};
  iovec part{&packet, sizeof packet};
  alignas(cmsghdr) std::byte control[256];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = ::recvmsg(connection.fd.get(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (got < 0 && errno == EAGAIN) return true;  // it was taken while we waited for `dropped`
  if (got <= 0) return false;
  pid_t pid = 0;
  Fd file;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_type == SCM_CREDENTIALS) pid = reinterpret_cast<const ucred*>(CMSG_DATA(header))->pid;
    if (header->cmsg_type == SCM_RIGHTS) file = Fd(*reinterpret_cast<const int*>(CMSG_DATA(header)));
  }
  if (packet.kind == DaemonPacketKind::join && options_.rules.refuses) {
    DaemonPacket refusal = packet_of(DaemonPacketKind::refused);
    constexpr std::string_view kWhy = "because it is a test";
    std::ranges::copy(kWhy, reinterpret_cast<char*>(refusal.ranges.data()));
    refusal.count = kWhy.size();
    static_cast<void>(::send(connection.fd.get(), &refusal, DaemonPacket::bytes(0) + kWhy.size(), MSG_NOSIGNAL));
    return true;
  }
  if (packet.kind == DaemonPacketKind::join) {
    join(connection, packet, pid, std::move(file));
    return true;
  }
  const auto process = process_with(packet.value);
  if (!process) return false;
  switch (packet.kind) {
    case DaemonPacketKind::discard:
    case DaemonPacketKind::clear:
    case DaemonPacketKind::give_away: discard(*process, packet); break;
    case DaemonPacketKind::advise:
    case DaemonPacketKind::unpin: break;
    case DaemonPacketKind::fork_begins:
      connection.parent = process;
      process->is_forking = true;
      if (options_.rules.copies_space_at_fork) process->forked_space = process->space;
      send(connection.fd, packet_of(DaemonPacketKind::quiet));
      return true;
    case DaemonPacketKind::forked: process->is_forking = false; return true;
    default: return false;
  }
  send(connection.fd, packet_of(DaemonPacketKind::done));
  return true;
}

void StandInDaemon::join(Connection& connection, const DaemonPacket& packet, pid_t pid, Fd userfault) {
  auto process = std::make_shared<Process>();
  process->pid = pid;
  process->userfault = std::move(userfault);
  process->memory = Fd(::open(("/proc/" + std::to_string(pid) + "/mem").c_str(), O_RDONLY | O_CLOEXEC));
  process->ranges.assign(packet.ranges.begin(), packet.ranges.begin() + static_cast<long>(packet.count));
  if (connection.parent) process->space = std::move(connection.parent->forked_space);
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = UFFD_FEATURE_PAGEFAULT_FLAG_WP;
  check(::ioctl(process->userfault.get(), UFFDIO_API, &api) == 0, "UFFDIO_API");
  const Fd pagemap(::open(("/proc/" + std::to_string(pid) + "/pagemap").c_str(), O_RDONLY | O_CLOEXEC));
  for (const AddressRange& range : process->ranges) {
    uffdio_register request{};
    request.range = {range.address, range.bytes};
    request.mode = UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP;
    check(::ioctl(process->userfault.get(), UFFDIO_REGISTER, &request) == 0, "UFFDIO_REGISTER");
    std::vector<std::uint64_t> entries(range.bytes / kPage);
    check(::pread(pagemap.get(), entries.data(), entries.size() * 8, static_cast<off_t>(range.address / kPage * 8)) > 0,
          "pagemap");
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (entries[i] >> 62U == 0) continue;
      process->here[range.address + i * kPage] = true;
      process->order.push_back(range.address + i * kPage);
      process->space.erase(range.address + i * kPage);
    }
  }
  connection.process = process;
  connection.parent = nullptr;
  ++joined_;
  send(connection.fd, packet_of(DaemonPacketKind::joined, static_cast<std::uint64_t>(pid)));
}

// False when the process has ended. A child's parent may say on this connection that it forked.
bool StandInDaemon::drop_and_wait(Connection& connection, const DaemonPacket& drop) {
  send(connection.fd, drop);
  for (DaemonPacket answer{}; ::recv(connection.fd.get(), &answer, sizeof answer, 0) > 0;) {
    if (answer.kind == DaemonPacketKind::dropped) return true;
    const auto parent = answer.kind == DaemonPacketKind::forked ? process_with(answer.value) : nullptr;
    if (parent) parent->is_forking = false;
  }
  return false;
}

void StandInDaemon::discard(Process& process, const DaemonPacket& packet) {
  ++discards_;
  if (!options_.rules.discards) return;
  Connection& connection = main_connection(process);
  DaemonPacket drop = packet;
  drop.kind = DaemonPacketKind::drop;
  if (!drop_and_wait(connection, drop)) return;
  for (std::uint64_t i = 0; i < packet.count; ++i) {
    const auto [begin, bytes] = packet.ranges.at(i);
    process.here.erase(process.here.lower_bound(begin), process.here.lower_bound(begin + bytes));
    process.space.erase(process.space.lower_bound(begin), process.space.lower_bound(begin + bytes));
  }
}

void StandInDaemon::serve_faults(Connection& connection) {
  Process& process = *connection.process;
  uffd_msg message{};
  while (::read(process.userfault.get(), &message, sizeof message) == sizeof message) {
    if (message.event != UFFD_EVENT_PAGEFAULT) continue;
    const std::uint64_t page = message.arg.pagefault.address & ~(kPage - 1);
    if (process.here.contains(page)) {
      protect(process.userfault.get(), page, false);
      uffdio_range range{page, kPage};
      ::ioctl(process.userfault.get(), UFFDIO_WAKE, &range);
      continue;
    }
    ++faults_;
    const auto kept = process.space.find(page);
    const Page zeros(kPage);
    const bool is_kept = kept != process.space.end() && options_.rules.keeps_bytes;
    const Page& bytes = is_kept ? kept->second : zeros;
    process.here[page] = true;
    process.order.push_back(page);
    uffdio_copy request{};
    request.dst = page;
    request.src = reinterpret_cast<std::uint64_t>(bytes.data());
    request.len = kPage;
    if (::ioctl(process.userfault.get(), UFFDIO_COPY, &request) != 0)
      process.here.erase(page);  // it ends, or is not ours
    if (kept != process.space.end()) process.space.erase(kept);
    if (process.here.size() > options_.budget_pages && !process.is_forking) evict(connection);
  }
}

// Half of the budget, in as few packets as will hold it.
void StandInDaemon::evict(Connection& connection) {
  Process& process = *connection.process;
  DaemonPacket drop = packet_of(DaemonPacketKind::drop);
  const auto flush = [&] {
    if (drop.count == 0) return;
    static_cast<void>(drop_and_wait(connection, drop));
    drop.count = 0;
  };
  while (process.here.size() > options_.budget_pages / 2 && !process.order.empty()) {
    const std::uint64_t page = process.order.front();
    process.order.pop_front();
    if (process.here.erase(page) == 0) continue;
    protect(process.userfault.get(), page, true);
    Page bytes(kPage);
    if (::pread(process.memory.get(), bytes.data(), kPage, static_cast<off_t>(page)) != static_cast<ssize_t>(kPage))
      continue;
    process.space[page] = std::move(bytes);
    drop.ranges.at(drop.count++) = {page, kPage};
    if (drop.count == DaemonPacket::kRanges) flush();
  }
  flush();
}

}  // namespace farside::test
