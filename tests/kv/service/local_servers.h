// local_servers.h — servers within the test's own process, asked by calls: so that a test says what happens between
// any two steps. Their memory is READ as that of others is.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "farside/fabric/fabric.h"

#include "kv/client/atomic_session.h"
#include "kv/protocol/server_memory.h"
#include "kv/server/request_handler.h"

namespace farside::kv {

/// The first key that is that server's; `number`: the next, and so on.
inline std::string key_of_server(ServerNumber server, ServerNumber servers, std::size_t number = 0) {
  for (std::size_t i = 0;; ++i) {
    std::string key = "key " + std::to_string(i);
    if (server_of(key_id(key), servers) == server && number-- == 0) return key;
  }
}

class LocalServers {
 public:
  static constexpr PeerId kSelf = 0;

  /// `journal` is that of the last server.
  explicit LocalServers(ServerNumber count, StoreSettings settings = {.bytes = 4U << 20U}, const KvRules& rules = {},
                        Journal* journal = nullptr) {
    fabric_->connect(kSelf, fabric_->address());
    for (ServerNumber number = 0; number < count; ++number) {
      Side& side = sides_.emplace_back();
      side.region = fabric_->create_region("memory of server " + std::to_string(number), settings.bytes);
      side.remote = fabric_->attach(kSelf, side.region->handle());
      side.store = std::make_unique<Store>(*fabric_, *channel_, *side.region, settings, rules);
      side.logged = std::make_unique<LoggedStore>(*side.store, number + 1 == count ? journal : nullptr);
      side.handler = std::make_unique<RequestHandler>(*side.logged);
      memories_.push_back(ServerMemory::read(*channel_, *side.remote, soon()).value());
    }
  }

  [[nodiscard]] Fabric& fabric() { return *fabric_; }
  [[nodiscard]] Channel& channel() { return *channel_; }
  [[nodiscard]] ServerMemories memories() const { return memories_; }
  [[nodiscard]] ServerNumber count() const { return static_cast<ServerNumber>(sides_.size()); }
  [[nodiscard]] Store& store_of(std::string_view key) { return *sides_.at(server_of(key_id(key), count())).store; }
  [[nodiscard]] LoggedStore& logged(ServerNumber server) { return *sides_.at(server).logged; }
  [[nodiscard]] RequestHandler& handler(ServerNumber server) { return *sides_.at(server).handler; }
  [[nodiscard]] Deadline soon() { return fabric_->in(std::chrono::seconds(30)); }

 private:
  struct Side {
    std::unique_ptr<Region> region;
    std::unique_ptr<RemoteRegion> remote;
    std::unique_ptr<Store> store;
    std::unique_ptr<LoggedStore> logged;
    std::unique_ptr<RequestHandler> handler;
  };
  std::unique_ptr<Fabric> fabric_ = make_host_fabric({});
  std::unique_ptr<Channel> channel_ = fabric_->open_channel();
  std::deque<Side> sides_;
  std::vector<ServerMemory> memories_;
};

/// Answers at once, and counts.
class LocalRequests : public Requests {
 public:
  explicit LocalRequests(LocalServers& servers) : servers_(servers), replies_(servers.count()) {}

  [[nodiscard]] ServerNumber servers() const override { return servers_.count(); }
  Outcome send(ServerNumber server, std::span<const std::byte> request, Deadline /*deadline*/) override {
    ++sent_;
    servers_.fabric().sleep(delay_);
    replies_.at(server).push_back(servers_.handler(server).answer(request));
    return Outcome::done;
  }
  Result<Message> receive(ServerNumber server, Deadline /*deadline*/) override {
    Message reply = std::move(replies_.at(server).front());
    replies_.at(server).pop_front();
    return {Outcome::done, std::move(reply)};
  }
  [[nodiscard]] bool has_reply(ServerNumber server) override { return !replies_.at(server).empty(); }

  [[nodiscard]] int sent() const noexcept { return sent_; }
  void take_each(Duration delay) { delay_ = delay; }

 private:
  LocalServers& servers_;
  std::vector<std::deque<Message>> replies_;
  int sent_ = 0;
  Duration delay_{};
};

/// A session with its own way to ask.
struct LocalSession {
  LocalSession(LocalServers& servers, SessionSettings settings)
      : requests(servers), session(servers.fabric(), servers.channel(), requests, servers.memories(), settings) {}

  LocalRequests requests;
  AtomicSession session;
};

}  // namespace farside::kv
