// The threads of a RespWorker that wait in a call (resp_worker.h): the loop is taken from them, with the clients that
// the call does not need any more, and they come back when the call has ended.
#include <algorithm>
#include <utility>
#include <variant>

#include "farside/base/error.h"

#include "base/assert.h"
#include "kv/resp/resp_worker.h"

namespace farside::kv {

RespWorker::Lane::Lane(RespStatus& status, Overseer& overseer, std::unique_ptr<Session> its)
    : session(std::move(its), status.latencies, overseer.clock(), [&overseer] { overseer.wake(); }) {}

std::size_t RespWorker::further_sessions() {
  const MutexLock lock(lanes_mutex_);
  return spare_.size() + away_.size();
}

void RespWorker::add(std::unique_ptr<Session> session) {
  const MutexLock lock(lanes_mutex_);
  spare_.push_back(std::make_unique<Lane>(status_, overseer_, std::move(session)));
}

void RespWorker::relieve_if_stuck(Clock::time_point since, const Session& places) {
  lane_->session.look(since, [&](const WatchedSession::Needs& needs) {
    suspect(needs, places);
    return relieve();
  });
}

void RespWorker::suspect(const WatchedSession::Needs& needs, const Session& places) {
  using Use = SilentServers::Use;
  const auto suspect_all = [&](Use use, const auto& items) {
    for (const auto& item : items) {
      if constexpr (requires { item.key; }) {
        status_.silent.suspect(use, places.server_of(item.key));
      } else {
        status_.silent.suspect(use, places.server_of(item));
      }
    }
  };
  if (const auto* keys = std::get_if<std::span<const std::string_view>>(&needs)) return suspect_all(Use::read, *keys);
  if (const auto* writes = std::get_if<std::span<const Write>>(&needs)) return suspect_all(Use::write, *writes);
  if (const auto* puts = std::get_if<std::span<IndependentPut>>(&needs)) {
    const MutexLock lock(lanes_mutex_);
    for (const IndependentPut& put : *puts) {
      if (!has_ended(*lane_, put)) suspect_all(Use::write, put.writes);
    }
    return;
  }
  for (std::uint32_t server = 0; server < places.servers(); ++server) status_.silent.suspect(Use::write, server);
}

// The loop's thread waits in a call, and touches nothing.
bool RespWorker::relieve() {
  const MutexLock lock(lanes_mutex_);
  if (spare_.empty()) return false;
  Lane& stuck = *lane_;
  set_away(stuck, true);
  std::swap(lane_, spare_.back());
  try {
    stuck.relieved = loop_.hand_over();
  } catch (const Error& error) {
    std::swap(lane_, spare_.back());
    set_away(stuck, false);
    log_.warn(error.what());
    return false;
  }
  away_.push_back(std::move(spare_.back()));
  spare_.pop_back();
  give_back(stuck);
  return true;
}

bool RespWorker::has_ended(const Lane& lane, const IndependentPut& put) {
  return std::ranges::find(lane.ended, static_cast<std::size_t>(&put - lane.puts.data())) != lane.ended.end();
}

bool RespWorker::is_away(const Lane& lane) const {
  return std::ranges::find(away_, &lane, &std::unique_ptr<Lane>::get) != away_.end();
}

void RespWorker::give_back(Lane& lane) {
  for (const std::size_t put : lane.ended) {
    Client* client = std::exchange(lane.clients[put], nullptr);
    loop_.post([this, client, outcome = lane.puts[put].outcome] { take_back(*client, outcome); });
  }
  lane.ended.clear();
}

void RespWorker::take_back(Client& client, PutOutcome outcome) {
  client.is_away = false;
  client.connection.ignore(false);
  if (client.is_unwanted) return remove(client.obeying.id());
  client.obeying.use(lane_->session);
  client.obeying.end_writes(outcome, client.replies);
  written_.push_back(client.obeying.id());
}

void RespWorker::set_away(const Lane& lane, bool is_away) {
  for (Client* client : lane.clients) {
    if (client == nullptr) continue;
    client->is_away = is_away;
    client->connection.ignore(is_away);
  }
}

void RespWorker::take_back(Lane& lane, bool is_replaced) {
  lane.relieved.join();
  set_away(lane, false);
  const std::vector<Client*> clients = std::exchange(lane.clients, {});
  lane.session.watch_again();
  {
    const MutexLock lock(lanes_mutex_);
    const auto found = std::ranges::find(away_, &lane, &std::unique_ptr<Lane>::get);
    assert_that(found != away_.end(), "a lane is away until it is taken back");
    spare_.push_back(std::move(*found));
    away_.erase(found);
  }
  for (Client* client : clients) {
    if (client == nullptr) continue;
    if (client->is_unwanted || is_replaced) {
      remove(client->obeying.id());
    } else {
      stopped_at(*client);
    }
  }
  if (is_replaced) disconnect_all();
}

}  // namespace farside::kv
