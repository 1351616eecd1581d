#include "kv/resp/resp_worker.h"

#include <algorithm>
#include <utility>

#include "farside/base/error.h"
#include "farside/base/log.h"

#include "kv/resp/reconnecting_session.h"

namespace farside::kv {

namespace {

// Idle clients keep that much of a buffer.
constexpr std::size_t kKeptBytes = Connection::kChunkBytes;
constexpr std::size_t kUnauthenticatedChunkBytes = 1024;
constexpr auto kLookAfterClients = std::chrono::seconds(1);

constexpr std::array<std::string_view, kDisconnected.size()> kWhy{
    "it does not take its replies",
    "it has not taken any of its replies for long",
    "its buffers are the largest, and those of all clients take too much memory",
    "it has not given the password in time",
};

void shrink(std::string& buffer) {
  if (buffer.empty() && buffer.capacity() > kKeptBytes) buffer.shrink_to_fit();
}

}  // namespace

RespWorker::RespWorker(RespStatus& status, std::unique_ptr<Session> session, std::size_t buffer_bytes)
    : status_(status), buffer_limit_(buffer_bytes), session_(std::move(session)) {
  loop_.post([this] { loop_.after_each_round([this] { serve_ready(); }); });
}

void RespWorker::admit(Fd socket, std::uint64_t id, std::string address) {
  // A task is copied, and a socket cannot be.
  auto shared = std::make_shared<Fd>(std::move(socket));
  loop_.post([this, shared, id, where = std::move(address)] {
    clients_.try_emplace(id, *this, std::move(*shared), id, where);
    if (clients_.size() == 1) loop_.tick(kLookAfterClients, [this] { look_after_clients(); });
  });
}

RespWorker::Client* RespWorker::find(std::uint64_t id) {
  const auto found = clients_.find(id);
  return found == clients_.end() ? nullptr : &found->second;
}

void RespWorker::serve_ready() {
  try {
    serve();
  } catch (const StoreReplaced&) {
    disconnect_all();
  }
}

// Of all clients that have asked for something: each goes on until it has something to be written, which is written
// together, until none has.
void RespWorker::serve() {
  for (const std::uint64_t id : ready_) {
    Client* client = find(id);
    if (client == nullptr) continue;
    if (client->is_paused) {  // the connection has broken
      remove(id);
      continue;
    }
    receive(*client);
    go_on(id, *client);
  }
  ready_.clear();
  while (!waiting_.empty()) {
    const std::vector<std::uint64_t> written = std::exchange(waiting_, {});
    write_for(written);
    for (const std::uint64_t id : written) {
      if (Client* client = find(id)) go_on(id, *client);
    }
  }
}

void RespWorker::receive(Client& client) {
  const bool is_known = client.obeying.authenticated();
  client.has_left = !client.connection.receive(is_known ? Connection::kChunkBytes : kUnauthenticatedChunkBytes);
}

void RespWorker::go_on(std::uint64_t id, Client& client) {
  client.obeying.go_on(client.connection.received(), client.replies);
  if (client.obeying.waits()) {
    waiting_.push_back(id);
    count_buffers(client);
  } else {
    answer(id, client);
  }
  make_room();
}

void RespWorker::write_for(std::span<const std::uint64_t> ids) {
  std::vector<Client*> clients;
  puts_.clear();
  for (const std::uint64_t id : ids) {
    Client* client = find(id);
    if (client == nullptr) continue;
    clients.push_back(client);
    puts_.push_back({client->obeying.writes()});
  }
  try {
    session_->put_each(puts_);
  } catch (const Error&) {  // one of them cannot be, and nothing was written
    for (IndependentPut& put : puts_) put.outcome = write_alone(put.writes);
  }
  for (std::size_t i = 0; i < clients.size(); ++i) {
    clients[i]->obeying.end_writes(puts_[i].outcome, clients[i]->replies);
  }
}

PutOutcome RespWorker::write_alone(std::span<const Write> writes) {
  try {
    return session_->put_all(writes);
  } catch (const Error&) {
    return PutOutcome::unknown;
  }
}

void RespWorker::answer(std::uint64_t id, Client& client) {
  if (client.obeying.overflowed()) return disconnect(id, Disconnected::output);
  shrink(client.connection.received());
  client.connection.send(client.replies);
  client.replies.clear();
  shrink(client.replies);
  count_buffers(client);
  const RespSettings& settings = status_.settings;
  const std::size_t limit =
      client.obeying.ever_authenticated() ? settings.output_bytes : settings.unauthenticated_output_bytes;
  if (client.obeying.take_wrong_password()) pause(client);
  if (client.has_left || !client.obeying.is_open()) return remove(id);
  if (client.connection.unsent_bytes() > limit) disconnect(id, Disconnected::output);
}

void RespWorker::count_buffers(Client& client) {
  const std::size_t bytes =
      client.connection.buffered_bytes() + client.replies.capacity() + client.obeying.buffered_bytes();
  buffered_bytes_ = buffered_bytes_ - std::exchange(client.counted_bytes, bytes) + bytes;
}

void RespWorker::make_room() {
  while (buffered_bytes_ > buffer_limit_) {
    const auto bytes_of = [](const auto& each) { return each.second.counted_bytes; };
    disconnect(std::ranges::max_element(clients_, {}, bytes_of)->first, Disconnected::buffers);
  }
}

// Passwords are not tried faster than that, and what is sent meanwhile stays with the kernel.
void RespWorker::pause(Client& client) {
  log_.warn("a client of the Redis protocol (" + client.obeying.address() + ") gave a wrong password");
  client.is_paused = true;
  client.paused_until = Clock::now() + status_.settings.wrong_password_pause;
  client.connection.pause(true);
}

void RespWorker::resume(std::uint64_t id, Client& client) {
  client.is_paused = false;
  client.connection.pause(false);
  ready_.push_back(id);  // for what it had sent before
}

void RespWorker::look_after_clients() {
  const auto now = Clock::now();
  std::vector<std::uint64_t> unread;
  std::vector<std::uint64_t> unknown;
  for (auto& [id, client] : clients_) {
    count_buffers(client);  // what was sent since
    const std::uint64_t taken = std::exchange(client.taken_bytes, client.connection.taken_bytes());
    if (client.connection.unsent_bytes() == 0 || taken != client.taken_bytes) client.taken = now;
    if (now - client.taken > status_.settings.unread_limit) unread.push_back(id);
    const bool is_known = client.obeying.ever_authenticated();
    if (!is_known && now - client.obeying.since() > status_.settings.unauthenticated_limit) unknown.push_back(id);
    if (client.is_paused && now >= client.paused_until) resume(id, client);
  }
  for (const std::uint64_t id : unread) disconnect(id, Disconnected::unread);
  for (const std::uint64_t id : unknown) {
    if (find(id) != nullptr) disconnect(id, Disconnected::unauthenticated);
  }
  if (clients_.empty()) loop_.tick(std::chrono::milliseconds(0), [] {});
}

void RespWorker::disconnect(std::uint64_t id, Disconnected why) {
  const auto reason = static_cast<std::size_t>(why);
  ++status_.disconnected.at(reason);
  log_.warn("a client of the Redis protocol (" + find(id)->obeying.address() +
            ") is disconnected: " + std::string(kWhy.at(reason)));
  remove(id);
}

void RespWorker::disconnect_all() {
  log::warn("another pool is in the place of the one before: " + std::to_string(clients_.size()) +
            " clients of the Redis protocol are disconnected");
  clients_.clear();
  ready_.clear();
  waiting_.clear();
  buffered_bytes_ = 0;
}

void RespWorker::remove(std::uint64_t id) {
  const auto found = clients_.find(id);
  buffered_bytes_ -= found->second.counted_bytes;
  clients_.erase(found);
}

}  // namespace farside::kv
