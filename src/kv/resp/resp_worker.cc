#include "kv/resp/resp_worker.h"

#include <algorithm>
#include <utility>

#include "farside/base/error.h"
#include "farside/base/log.h"

#include "base/assert.h"
#include "kv/protocol/time_limits.h"
#include "kv/resp/reconnecting_session.h"

namespace farside::kv {

namespace {

// Idle clients keep that much of a buffer.
constexpr std::size_t kKeptBytes = net::Connection::kChunkBytes;
constexpr std::size_t kUnauthenticatedChunkBytes = 1024;

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

RespWorker::RespWorker(RespStatus& status, Overseer& overseer, std::unique_ptr<Session> session,
                       std::size_t buffer_bytes)
    : status_(status),
      buffer_limit_(buffer_bytes),
      overseer_(overseer),
      lane_(std::make_unique<Lane>(status, overseer, std::move(session))) {
  loop_.post([this] { loop_.after_each_round([this] { serve_ready(); }); });
}

RespWorker::~RespWorker() {
  loop_.stop();
  for (const auto& lane : away_) lane->relieved.join();
}

void RespWorker::admit(Fd socket, std::uint64_t id, std::string address) {
  // A task is copied, and a socket cannot be.
  auto shared = std::make_shared<Fd>(std::move(socket));
  loop_.post([this, shared, id, where = std::move(address)] {
    clients_.try_emplace(id, *this, std::move(*shared), id, where);
    if (clients_.size() == 1) loop_.tick(time_limits::kClientLook, [this] { look_after_clients(); });
  });
}

RespWorker::Client* RespWorker::find(std::uint64_t id) {
  const auto found = clients_.find(id);
  return found == clients_.end() || found->second.is_away ? nullptr : &found->second;
}

// ---- Serving

void RespWorker::serve_ready() {
  Lane& lane = *lane_;
  bool is_replaced = false;
  try {
    serve(lane);
  } catch (const StoreReplaced&) {
    is_replaced = true;
  }
  if (lane.session.is_relieved()) {  // the loop is another's
    loop_.post([this, &lane, is_replaced] { take_back(lane, is_replaced); });
  } else if (is_replaced) {
    disconnect_all();
  }
}

// Serves all clients that have asked for something: each goes on until it has something to be written, which is written
// together, until none has.
void RespWorker::serve(Lane& lane) {
  const auto take = [](std::deque<std::uint64_t>& ids) {
    const std::uint64_t id = ids.front();
    ids.pop_front();
    return id;
  };
  while (!lane.session.is_relieved()) {
    if (!written_.empty()) {
      if (Client* client = find(take(written_))) go_on(lane, *client);
    } else if (!ready_.empty()) {
      Client* client = find(take(ready_));
      if (client == nullptr) continue;
      if (client->is_waiting) continue;               // the loop reports again what has come
      if (client->is_paused || client->is_held_up) {  // the connection has broken
        remove(client->obeying.id());
        continue;
      }
      receive(*client);
      go_on(lane, *client);
    } else if (!waiting_.empty()) {
      write_for(lane, std::exchange(waiting_, {}));
    } else {
      return;
    }
  }
}

void RespWorker::receive(Client& client) {
  const bool is_known = client.obeying.authenticated();
  client.has_left = !client.connection.receive(is_known ? net::Connection::kChunkBytes : kUnauthenticatedChunkBytes);
}

void RespWorker::go_on(Lane& lane, Client& client) {
  lane.clients.assign(1, &client);
  client.obeying.use(lane.session);
  client.obeying.go_on(client.connection.received(), client.replies);
  if (lane.session.is_relieved()) {
    client.obeying.go_on_alone(client.connection.received(), client.replies);
  } else {
    stopped_at(client);
  }
}

void RespWorker::stopped_at(Client& client) {
  const std::uint64_t id = client.obeying.id();
  if (client.obeying.waits()) {
    assert_that(!client.is_waiting, "a client waits for one write at a time");
    client.is_waiting = true;
    waiting_.push_back(id);
    count_buffers(client);
  } else if (client.obeying.is_held_up() && !client.obeying.overflowed()) {
    hold_up(client);
  } else {
    answer(id, client);
  }
  make_room();
}

// The loop reports again what it has sent by then, and whether it has left.
void RespWorker::hold_up(Client& client) {
  client.is_held_up = true;
  std::erase(ready_, client.obeying.id());
  client.connection.pause(true);
  send_replies(client);
}

void RespWorker::look_again() {
  loop_.post([this] {
    for (auto& [id, client] : clients_) {
      if (client.is_away || !client.is_held_up) continue;
      client.is_held_up = false;
      client.connection.pause(false);
      written_.push_back(id);
    }
  });
}

void RespWorker::write_for(Lane& lane, std::span<const std::uint64_t> ids) {
  lane.clients.clear();
  lane.puts.clear();
  for (const std::uint64_t id : ids) {
    Client* client = find(id);
    if (client == nullptr) continue;
    client->is_waiting = false;
    client->obeying.use(lane.session);
    lane.clients.push_back(client);
    lane.puts.push_back({client->obeying.writes()});
  }
  try {
    lane.session.put_each(lane.puts, [&](const IndependentPut& put) {
      end_write(lane, static_cast<std::size_t>(&put - lane.puts.data()));
    });
  } catch (const Error&) {  // one of them cannot be, and nothing was written
    for (IndependentPut& put : lane.puts) put.outcome = write_alone(lane.session, put.writes);
  }
  {
    const MutexLock lock(lanes_mutex_);
    lane.ended.clear();
  }
  for (std::size_t i = 0; i < lane.clients.size(); ++i) {
    if (lane.clients[i] != nullptr) lane.clients[i]->obeying.end_writes(lane.puts[i].outcome, lane.clients[i]->replies);
  }
  if (lane.session.is_relieved()) {
    for (Client* client : lane.clients) {
      if (client != nullptr) client->obeying.go_on_alone(client->connection.received(), client->replies);
    }
  } else {
    written_.insert(written_.end(), ids.begin(), ids.end());
  }
}

// By the thread that is in the call.
void RespWorker::end_write(Lane& lane, std::size_t put) {
  const MutexLock lock(lanes_mutex_);
  lane.ended.push_back(put);
  if (is_away(lane)) give_back(lane);
}

PutOutcome RespWorker::write_alone(Session& session, std::span<const Write> writes) {
  try {
    return session.put_all(writes);
  } catch (const Error&) {
    return PutOutcome::unknown;
  }
}

void RespWorker::send_replies(Client& client) {
  client.connection.send(client.replies);
  client.replies.clear();
  shrink(client.replies);
  count_buffers(client);
}

void RespWorker::answer(std::uint64_t id, Client& client) {
  if (client.obeying.overflowed()) return disconnect(id, Disconnected::output);
  shrink(client.connection.received());
  send_replies(client);
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
  const auto bytes_of = [](const auto& each) { return each.second.is_away ? 0 : each.second.counted_bytes; };
  while (buffered_bytes_ > buffer_limit_) {
    const auto largest = std::ranges::max_element(clients_, {}, bytes_of);
    assert_that(largest != clients_.end(), "buffers that are counted are those of clients");
    if (largest->second.is_away) return;  // as all are
    disconnect(largest->first, Disconnected::buffers);
  }
}

// Passwords are not tried faster than that, and what is sent meanwhile stays with the kernel.
void RespWorker::pause(Client& client) {
  log_.warn("a client of the Redis protocol (" + client.obeying.address() + ") gave a wrong password");
  client.is_paused = true;
  client.paused_until = Clock::now() + status_.settings.wrong_password_pause;
  std::erase(ready_, client.obeying.id());
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
    if (client.is_away) continue;
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
  const Client* const client = find(id);
  assert_that(client != nullptr, "a client that is disconnected is connected, and not away");
  ++status_.disconnected.at(reason);
  log_.warn("a client of the Redis protocol (" + client->obeying.address() +
            ") is disconnected: " + std::string(kWhy.at(reason)));
  remove(id);
}

void RespWorker::disconnect_all() {
  log::warn("another pool is in the place of the one before: " + std::to_string(clients_.size()) +
            " clients of the Redis protocol are disconnected");
  std::erase_if(clients_, [](const auto& each) { return !each.second.is_away; });
  buffered_bytes_ = 0;
  for (auto& [id, client] : clients_) {
    client.is_unwanted = true;
    buffered_bytes_ += client.counted_bytes;
  }
  ready_.clear();
  written_.clear();
  waiting_.clear();
}

void RespWorker::remove(std::uint64_t id) {
  const auto found = clients_.find(id);
  assert_that(found != clients_.end(), "a client is removed once");
  buffered_bytes_ -= found->second.counted_bytes;
  clients_.erase(found);
}

}  // namespace farside::kv
