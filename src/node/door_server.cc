#include "node/door_server.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <optional>
#include <utility>

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "farside/base/error.h"
#include "farside/base/log.h"

#include "node/door_packet.h"
#include "team/local_socket.h"

namespace farside {

namespace {

// Loads from a file system mostly wait; more of them than cores keep it busy.
constexpr int kMostLoads = 8;
constexpr int kWorkers = kMostLoads + 2;
// No load began or ended for so long: the file system hangs. Shorter than the patience of programs.
constexpr Duration kStuck = std::chrono::seconds(5);
constexpr Duration kPauseAfterFailedAccept = std::chrono::milliseconds(20);

Fd listen_on(const std::string& path) {
  Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) throw errno_error("create the socket", path);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) throw errno_error("remove the old socket", path);
  listen_for_this_user(socket, path);
  return socket;
}

// Each may have a file besides its socket with us, and the node needs some descriptors itself.
std::size_t most_clients() {
  constexpr std::size_t kEnough = 4096;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) throw errno_error("read", "the limit of open files");
  return std::min<std::size_t>(kEnough, limit.rlim_cur / 3);
}

}  // namespace

DoorServer::DoorServer(Fabric& fabric, Door& door, std::string path)
    : fabric_(fabric),
      door_(door),
      path_(std::move(path)),
      listener_(listen_on(path_)),
      stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      events_(::epoll_create1(EPOLL_CLOEXEC)),
      most_clients_(most_clients()) {
  if (!stop_ || !events_) throw errno_error("prepare to listen on", path_, "raise ulimit -n");
  if (!arm(stop_.get(), EPOLL_CTL_ADD, 0) || !arm(listener_.get(), EPOLL_CTL_ADD, EPOLLONESHOT))
    throw errno_error("wait at", path_);
  for (int i = 0; i < kWorkers; ++i) {
    workers_.emplace_back([this, channel = fabric_.open_channel()] { work(*channel); });
  }
}

DoorServer::~DoorServer() {
  ::eventfd_write(stop_.get(), 1);
  for (std::thread& worker : workers_) worker.join();
  ::unlink(path_.c_str());
}

void DoorServer::work(Channel& channel) {
  for (;;) {
    epoll_event event{};  // one at a time: whatever is taken is served before the next is looked at
    const int ready = ::epoll_wait(events_.get(), &event, 1, -1);
    if (ready < 0 && errno != EINTR) {
      log::error("the door closes: " + std::string(std::strerror(errno)));
      return;
    }
    if (ready != 1) continue;
    if (event.data.fd == stop_.get()) return;
    if (event.data.fd == listener_.get()) {
      admit();
    } else {
      serve(channel, event.data.fd);
    }
  }
}

void DoorServer::admit() {
  Fd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!client) {
    if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR) {
      log_.warn("cannot accept a program: " + std::string(std::strerror(errno)));
      fabric_.sleep(kPauseAfterFailedAccept);  // the listener stays readable: without a pause this would spin
    }
  } else if (peer_user(client) != ::geteuid()) {
    log_.warn("a program of another user was turned away");
  } else {
    const std::lock_guard lock(mutex_);
    const int number = client.get();
    // Taken in first: once the socket is armed, another worker may be looking for it.
    const bool taken = clients_.size() < most_clients_ && clients_.emplace(number, std::move(client)).second;
    if (!taken || !arm(number, EPOLL_CTL_ADD, EPOLLONESHOT)) {
      clients_.erase(number);
      log_.warn("too many programs at once: one was turned away");
    }
  }
  arm(listener_.get(), EPOLL_CTL_MOD, EPOLLONESHOT);
}

void DoorServer::serve(Channel& channel, int client) {
  Visit visit{.client = client, .buffer = {}, .packet = {}};
  std::optional<Packet> packet = receive_packet(socket_of(client), visit.buffer);
  if (!packet) {
    if (!arm(client, EPOLL_CTL_MOD, EPOLLONESHOT)) part(client);
    return;
  }
  if (packet->bytes == 0) return part(client);
  visit.packet = std::move(*packet);
  Door::may_wait(visit.bytes()) ? load(channel, std::move(visit)) : answer(channel, visit);
}

void DoorServer::load(Channel& channel, Visit visit) {
  std::unique_lock lock(mutex_);
  if (loads_ == kMostLoads) {
    if (fabric_.now() - last_load_ < kStuck) {
      waiting_.push_back(std::move(visit));
    } else {
      lock.unlock();
      log_.warn("a file system does not answer: programs are sent around");
      reply(visit.client, door_.around());
    }
    return;
  }
  ++loads_;
  for (;;) {
    last_load_ = fabric_.now();
    lock.unlock();
    answer(channel, visit);
    lock.lock();
    last_load_ = fabric_.now();
    if (waiting_.empty()) break;
    visit = std::move(waiting_.front());
    waiting_.pop_front();
  }
  --loads_;
}

void DoorServer::answer(Channel& channel, Visit& visit) {
  try {
    const DoorReply answer = door_.answer(channel, visit.bytes(), visit.packet.fds);
    visit.packet.fds.clear();  // first: the program may close its own, and count on the file being closed
    reply(visit.client, answer);
  } catch (const std::exception& error) {
    log_.warn("a program's request failed: " + std::string(error.what()));
    part(visit.client);
  }
}

void DoorServer::reply(int client, const DoorReply& reply) {
  if (reply.refused) log_.warn("a program's request was not understood: it was disconnected");
  const bool sent = send_packet(socket_of(client), reply.bytes, reply.fds);
  if (!sent || reply.refused || !arm(client, EPOLL_CTL_MOD, EPOLLONESHOT)) part(client);
}

void DoorServer::part(int client) {
  const std::lock_guard lock(mutex_);
  clients_.erase(client);  // closes it, which takes it out of the epoll set
}

// It stays where it is: only the client's worker may part with it.
const Fd& DoorServer::socket_of(int client) {
  const std::lock_guard lock(mutex_);
  return clients_.at(client);
}

bool DoorServer::arm(int socket, int operation, std::uint32_t once) {
  epoll_event event{};
  event.events = EPOLLIN | once;
  event.data.fd = socket;
  return ::epoll_ctl(events_.get(), operation, socket, &event) == 0;
}

}  // namespace farside
