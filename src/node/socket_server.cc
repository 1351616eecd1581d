#include "node/socket_server.h"

#include <algorithm>
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
#include <sys/timerfd.h>
#include <unistd.h>

#include "farside/base/error.h"
#include "farside/base/log.h"
#include "farside/cache/time_limits.h"

#include "base/assert.h"
#include "net/local_socket.h"
#include "net/time_limits.h"
#include "node/socket_packet.h"

namespace farside::node {

namespace {

constexpr std::size_t kWorkers = 2 * LoadQueue::kMaxLoads + 2;  // each of two queues may keep kMaxLoads

// Programs that found this node silent or gone have noted it, and leave it alone.
void take_back_silence(const std::string& path) { ::unlink((path + cache::node_socket::kSilenceSuffix).c_str()); }

Fd listen_on(const std::string& path) {
  Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) throw errno_error("create the socket", path);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) throw errno_error("remove the old socket", path);
  take_back_silence(path);
  net::listen_for_this_user(socket, path);
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

SocketServer::SocketServer(Fabric& fabric, RequestHandler& handler, std::string path)
    : fabric_(fabric),
      handler_(handler),
      path_(std::move(path)),
      listener_(listen_on(path_)),
      stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      pause_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)),
      events_(::epoll_create1(EPOLL_CLOEXEC)),
      most_clients_(most_clients()) {
  if (!stop_ || !pause_ || !events_) throw errno_error("prepare to listen on", path_, "raise ulimit -n");
  if (!arm(stop_.get(), EPOLL_CTL_ADD, 0) || !arm(pause_.get(), EPOLL_CTL_ADD, EPOLLONESHOT) ||
      !arm(listener_.get(), EPOLL_CTL_ADD, EPOLLONESHOT)) {
    throw errno_error("wait at", path_);
  }
  for (std::size_t i = 0; i < kWorkers; ++i) {
    workers_.emplace_back([this, channel = fabric_.open_channel()] { work(*channel); });
  }
  keepers_.emplace_back(
      [this, channel = fabric_.open_channel()] { keep(loads_, [&] { handler_.renew_leases(*channel); }); });
  keepers_.emplace_back([this] { keep(identifications_, [] {}); });
}

SocketServer::~SocketServer() {
  ::eventfd_write(stop_.get(), 1);
  for (std::thread& worker : workers_) worker.join();
  loads_.close();
  identifications_.close();
  for (std::thread& keeper : keepers_) keeper.join();
  ::unlink(path_.c_str());
}

void SocketServer::work(Channel& channel) {
  for (;;) {
    epoll_event event{};  // one at a time: whatever is taken is served before the next is looked at
    const int ready = ::epoll_wait(events_.get(), &event, 1, -1);
    if (ready < 0 && errno != EINTR) {
      log::error("the node socket closes: " + std::string(std::strerror(errno)));
      return;
    }
    if (ready != 1) continue;
    if (event.data.fd == stop_.get()) return;
    if (event.data.fd == listener_.get()) {
      admit();
    } else if (event.data.fd == pause_.get()) {
      arm(listener_.get(), EPOLL_CTL_MOD, EPOLLONESHOT);
    } else {
      serve(channel, event.data.fd);
    }
  }
}

void SocketServer::keep(LoadQueue& queue, const std::function<void()>& at_each_look) {
  while (queue.wait_while_idle()) {
    const std::vector<int> late = queue.take_late(fabric_.now());
    if (!late.empty()) log_.warn("a file system is slow or hangs: programs read from it themselves meanwhile");
    for (const int client : late) give(client, handler_.busy());
    at_each_look();
    fabric_.sleep(cache::time_limits::kLook);
  }
}

void SocketServer::admit() {
  Fd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  const int error = errno;
  const MutexLock lock(mutex_);
  if (!client) {
    if (error != EAGAIN && error != ECONNABORTED && error != EINTR) {
      log_.warn("cannot accept a program: " + std::string(std::strerror(error)));
      return rest();
    }
  } else if (!net::is_of_this_user(client)) {
    log_.warn("a program of another user was turned away");
  } else {
    const int number = client.get();
    assert_that(!clients_.contains(number), "a descriptor number is that of one open client");
    // Taken in first: once the socket is armed, another worker may be looking for it.
    const bool taken = clients_.size() < most_clients_ && clients_.emplace(number, std::move(client)).second;
    if (!taken || !arm(number, EPOLL_CTL_ADD, EPOLLONESHOT)) {
      clients_.erase(number);
      log_.warn("too many programs at once: one was turned away");
    }
  }
  rests_.reset();
  arm(listener_.get(), EPOLL_CTL_MOD, EPOLLONESHOT);
}

// The listener stays readable: without a pause it would keep a worker busy.
void SocketServer::rest() {
  const std::chrono::nanoseconds pause = rests_.next();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(pause);
  const itimerspec once{{}, {seconds.count(), (pause - seconds).count()}};
  const int set = ::timerfd_settime(pause_.get(), 0, &once, nullptr);
  assert_that(set == 0, "a timer takes any time that is not negative");
  arm(pause_.get(), EPOLL_CTL_MOD, EPOLLONESHOT);
}

void SocketServer::serve(Channel& channel, int client) {
  Visit visit;
  visit.client = client;
  std::optional<Packet> packet = receive_packet(socket_of(client), visit.buffer);
  if (!packet) {
    if (!arm(client, EPOLL_CTL_MOD, EPOLLONESHOT)) part(client);
    return;
  }
  if (packet->bytes == 0) return part(client);
  visit.packet = std::move(*packet);
  if (const auto block = RequestHandler::may_wait_for(visit.bytes())) {
    return serve_in_turn(channel, std::move(visit), loads_, *block);
  }
  if (const auto mount = RequestHandler::may_wait_for_mount(visit.bytes(), visit.packet.fds)) {
    return serve_in_turn(channel, std::move(visit), identifications_, *mount);
  }
  give(client, answer(channel, visit));
}

void SocketServer::serve_in_turn(Channel& channel, Visit visit, LoadQueue& queue, const cache::BlockKey& key) {
  LoadQueue::Admitted admitted = queue.take_in(visit, key, fabric_.now());
  if (admitted.admission == LoadQueue::Admission::busy) {
    visit.packet.fds.clear();
    return give(visit.client, handler_.busy());
  }
  std::optional<LoadQueue::Turn> turn = std::move(admitted.turn);
  while (turn) {
    const std::optional<ReplyPacket> reply = answer(channel, turn->visit);
    if (reply && reply->come_again) {
      queue.postpone(std::move(*turn), fabric_.now());
    } else if (queue.end(*turn, fabric_.now())) {
      give(turn->visit.client, reply);
    }
    turn = queue.next(fabric_.now());
  }
}

std::optional<ReplyPacket> SocketServer::answer(Channel& channel, Visit& visit) {
  std::optional<ReplyPacket> reply;
  try {
    reply = handler_.answer(channel, visit.bytes(), visit.packet.fds, visit.watch);
  } catch (const std::exception& error) {
    log_.warn("a program's request failed: " + std::string(error.what()));
  }
  // Before the answer: the program may close its own, and count on the file being closed.
  if (!reply || !reply->come_again) visit.packet.fds.clear();
  return reply;
}

void SocketServer::give(int client, const std::optional<ReplyPacket>& answer) {
  if (answer && answer->refused) log_.warn("a program's request was not understood: it was disconnected");
  const bool is_sent = answer && send_packet(socket_of(client), answer->bytes, answer->fds);
  if (!is_sent || answer->refused || !arm(client, EPOLL_CTL_MOD, EPOLLONESHOT)) part(client);
}

void SocketServer::part(int client) {
  take_back_silence(path_);  // perhaps it was stopped, and this is a program that has given it up
  const MutexLock lock(mutex_);
  const std::size_t parted = clients_.erase(client);  // closes it, which takes it out of the epoll set
  assert_that(parted == 1, "a client is parted with once");
}

// It stays where it is: only the client's worker may part with it.
const Fd& SocketServer::socket_of(int client) {
  const MutexLock lock(mutex_);
  return clients_.at(client);
}

bool SocketServer::arm(int socket, int operation, std::uint32_t once) {
  epoll_event event{};
  event.events = EPOLLIN | once;
  event.data.fd = socket;
  return ::epoll_ctl(events_.get(), operation, socket, &event) == 0;
}

}  // namespace farside::node
