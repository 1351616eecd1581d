#include "kv/resp/resp_server.h"

#include <cerrno>
#include <thread>
#include <unordered_map>
#include <utility>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "farside/base/error.h"

#include "team/connection.h"
#include "team/socket.h"

namespace farside::kv {

namespace {

constexpr auto kPauseAfterFailedAccept = std::chrono::milliseconds(20);
constexpr std::string_view kTooMany = "-ERR max number of clients reached\r\n";
constexpr std::size_t kKeptInputBytes = std::size_t{1} << 20U;
constexpr std::size_t kKeptReplyBytes = std::size_t{64} << 10U;

void refuse(const Fd& socket) {
  ::send(socket.get(), kTooMany.data(), kTooMany.size(), MSG_NOSIGNAL);  // if it does not fit, it is not told
}

Fd open_spare() { return Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

std::string name_of(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    const auto& in = reinterpret_cast<const sockaddr_in&>(address);
    ::inet_ntop(AF_INET, &in.sin_addr, text, sizeof text);
    return std::string(text) + ":" + std::to_string(ntohs(in.sin_port));
  }
  if (address.ss_family == AF_INET6) {
    const auto& in = reinterpret_cast<const sockaddr_in6&>(address);
    ::inet_ntop(AF_INET6, &in.sin6_addr, text, sizeof text);
    return "[" + std::string(text) + "]:" + std::to_string(ntohs(in.sin6_port));
  }
  return "local";
}

}  // namespace

// One thread, its clients and its session.
class RespServer::Worker {
 public:
  Worker(RespStatus& status, std::unique_ptr<Session> session) : status_(status), session_(std::move(session)) {
    loop_.post([this] { loop_.after_each_round([this] { serve_ready(); }); });
  }
  ~Worker() { loop_.stop(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// From any thread.
  void admit(Fd socket, std::uint64_t id, std::string address) {
    // A task is copied, and a socket cannot be.
    auto shared = std::make_shared<Fd>(std::move(socket));
    loop_.post([this, shared, id, where = std::move(address)] {
      clients_.try_emplace(id, *this, std::move(*shared), id, where);
    });
  }

 private:
  struct Client {
    Client(Worker& worker, Fd socket, std::uint64_t id, const std::string& address)
        : status(worker.status_),
          obeying(*worker.session_, status, id, address),
          connection(worker.loop_, std::move(socket), [&worker, id] { worker.ready_.push_back(id); }) {}
    ~Client() { --status.clients; }
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    RespStatus& status;
    RespClient obeying;
    Connection connection;
    std::string replies{};
    bool has_left = false;
  };

  // Of all clients that have asked for something: each goes on until it has something to be written, which is written
  // together, until none has.
  void serve_ready() {
    std::vector<Client*> waiting;
    for (const std::uint64_t id : ready_) {
      Client& client = clients_.at(id);
      client.has_left = !client.connection.receive();
      client.obeying.go_on(client.connection.received(), client.replies);
      if (client.obeying.waits()) waiting.push_back(&client);
    }
    while (!waiting.empty()) {
      write_for(waiting);
      std::erase_if(waiting, [](Client* client) {
        client->obeying.go_on(client->connection.received(), client->replies);
        return !client->obeying.waits();
      });
    }
    for (const std::uint64_t id : ready_) answer(id);
    ready_.clear();
  }

  void write_for(std::span<Client* const> clients) {
    puts_.clear();
    for (Client* client : clients) puts_.push_back({client->obeying.writes()});
    try {
      session_->put_each(puts_);
    } catch (const Error&) {  // one of them cannot be, and nothing was written
      for (IndependentPut& put : puts_) put.outcome = write_alone(put.writes);
    }
    for (std::size_t i = 0; i < clients.size(); ++i)
      clients[i]->obeying.end_writes(puts_[i].outcome, clients[i]->replies);
  }

  PutOutcome write_alone(std::span<const Write> writes) {
    try {
      return session_->put_all(writes);
    } catch (const Error&) {
      return PutOutcome::unknown;
    }
  }

  void answer(std::uint64_t id) {
    Client& client = clients_.at(id);
    std::string& input = client.connection.received();
    if (input.empty() && input.capacity() > kKeptInputBytes) input.shrink_to_fit();
    client.connection.send(client.replies);
    client.replies.clear();
    if (client.replies.capacity() > kKeptReplyBytes) client.replies.shrink_to_fit();
    const bool closes = client.has_left || !client.obeying.is_open();
    if (closes || client.connection.unsent_bytes() > status_.settings.output_bytes) clients_.erase(id);
  }

  RespStatus& status_;
  std::unique_ptr<Session> session_;
  std::vector<std::uint64_t> ready_;  // clients that have sent something, or left
  std::vector<IndependentPut> puts_;
  EventLoop loop_;
  std::unordered_map<std::uint64_t, Client> clients_;
};

RespServer::RespServer(const std::string& address, RespSettings settings, std::size_t threads,
                       const OpenSession& open_session)
    : status_(std::move(settings)), listener_(listen_on(address)), spare_(open_spare()) {
  address_ = bound_address(listener_, address);
  for (std::size_t i = 0; i < threads; ++i) workers_.push_back(std::make_unique<Worker>(status_, open_session()));
  accepting_.post([this] { accepting_.watch(listener_.get(), EPOLLIN, [this](std::uint32_t) { accept_client(); }); });
}

RespServer::~RespServer() { accepting_.stop(); }

Fd RespServer::accept(sockaddr_storage& address) const {
  socklen_t length = sizeof address;
  return Fd(::accept4(listener_.get(), reinterpret_cast<sockaddr*>(&address), &length, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

// Nobody is left to wait in the listener's queue for an answer that does not come.
void RespServer::turn_away_without_descriptors() {
  spare_.reset();
  sockaddr_storage address{};
  if (const Fd socket = accept(address)) {
    refuse(socket);
  } else {
    std::this_thread::sleep_for(kPauseAfterFailedAccept);  // the listener stays readable: else this would spin
  }
  spare_ = open_spare();
}

void RespServer::accept_client() {
  sockaddr_storage address{};
  Fd socket = accept(address);
  if (!socket) {
    if (errno == EMFILE || errno == ENFILE) turn_away_without_descriptors();
    return;
  }
  if (++status_.clients > status_.settings.clients) {
    --status_.clients;
    return refuse(socket);
  }
  ++status_.connections;
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // replies are awaited
  const std::uint64_t id = next_client_++;
  workers_[id % workers_.size()]->admit(std::move(socket), id, name_of(address));
}

}  // namespace farside::kv
