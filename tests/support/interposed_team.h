// interposed_team.h — a member whose every operation a test hears of before it happens, whichever part of it posts it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "farside/team/team.h"

#include "tests/support/interposed_channel.h"

namespace farside::test {

class InterposedFabric final : public Fabric {
 public:
  explicit InterposedFabric(Fabric& inner) : inner_(inner) {}

  /// Of all channels, those that are open included. An empty one is none.
  void before_each(InterposedChannel::Hook hook) { *hook_ = std::move(hook); }
  void before_each_flush(InterposedChannel::PeerHook hook) { *flush_hook_ = std::move(hook); }
  /// Each operation takes effect and then ends as it says.
  void end_each(std::function<Outcome(const Operation&)> how) { *end_ = std::move(how); }

  [[nodiscard]] std::unique_ptr<Channel> open_channel() override {
    auto channel = std::make_unique<InterposedChannel>(inner_.open_channel());
    channel->before_each([hook = hook_, end = end_, posted = channel.get()](const Operation& operation) {
      if (const InterposedChannel::Hook now = *hook) now(operation);  // by copy: it may change itself
      posted->end_each_with(*end ? (*end)(operation) : Outcome::done);
    });
    channel->before_each_flush([hook = flush_hook_](PeerId peer, Deadline deadline) {
      return *hook ? (*hook)(peer, deadline) : Outcome::done;
    });
    return channel;
  }
  [[nodiscard]] std::unique_ptr<Region> create_region(std::string name, std::uint64_t bytes) override {
    return inner_.create_region(std::move(name), bytes);
  }
  [[nodiscard]] std::string address() override { return inner_.address(); }
  void connect(PeerId peer, std::string_view address) override { inner_.connect(peer, address); }
  [[nodiscard]] std::unique_ptr<RemoteRegion> attach(PeerId peer, std::string_view handle) override {
    return inner_.attach(peer, handle);
  }
  using Fabric::mark_lost;
  using Fabric::revoke;
  [[nodiscard]] PeerLife life(PeerId peer) const override { return inner_.life(peer); }
  void mark_lost(PeerId peer, PeerLife life) override { inner_.mark_lost(peer, life); }
  [[nodiscard]] bool lost(PeerId peer) const override { return inner_.lost(peer); }
  [[nodiscard]] bool reaches_by_memory(PeerId peer) const override { return inner_.reaches_by_memory(peer); }
  Outcome revoke(PeerId peer, PeerLife life, Deadline deadline) override { return inner_.revoke(peer, life, deadline); }
  [[nodiscard]] Time now() const override { return inner_.now(); }
  void sleep(Duration duration) override { inner_.sleep(duration); }
  [[nodiscard]] std::uint64_t random() override { return inner_.random(); }

 private:
  Fabric& inner_;
  std::shared_ptr<InterposedChannel::Hook> hook_ = std::make_shared<InterposedChannel::Hook>();
  std::shared_ptr<InterposedChannel::PeerHook> flush_hook_ = std::make_shared<InterposedChannel::PeerHook>();
  std::shared_ptr<std::function<Outcome(const Operation&)>> end_ =
      std::make_shared<std::function<Outcome(const Operation&)>>();
};

class InterposedTeam final : public team::Team {
 public:
  explicit InterposedTeam(team::Team& inner) : inner_(inner), fabric_(inner.fabric()) {}

  void before_each(InterposedChannel::Hook hook) { fabric_.before_each(std::move(hook)); }
  void before_each_flush(InterposedChannel::PeerHook hook) { fabric_.before_each_flush(std::move(hook)); }

  [[nodiscard]] team::Rank rank() const override { return inner_.rank(); }
  [[nodiscard]] team::Rank size() const override { return inner_.size(); }
  [[nodiscard]] Fabric& fabric() override { return fabric_; }
  [[nodiscard]] std::uint16_t incarnation() const override { return inner_.incarnation(); }
  [[nodiscard]] std::unique_ptr<team::SymmetricRegion> allocate(const std::string& name, std::uint64_t bytes) override {
    return inner_.allocate(name, bytes);
  }
  Outcome barrier(Deadline deadline) override { return inner_.barrier(deadline); }
  [[nodiscard]] std::uint64_t epoch() const override { return inner_.epoch(); }
  Outcome evict(team::Rank rank, Deadline deadline) override { return inner_.evict(rank, deadline); }

 private:
  team::Team& inner_;
  InterposedFabric fabric_;
};

}  // namespace farside::test
