// writer_fixture.h — a session that writes to servers some of which do not answer.
#pragma once

#include <array>
#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/kv/service/local_servers.h"

namespace farside::kv {

inline constexpr ServerNumber kServers = 3;

/// Of servers that are away no request is answered, and none that is `deaf` gets there.
class PatchyRequests final : public Requests {
 public:
  explicit PatchyRequests(LocalServers& servers) : local_(servers) {}

  void lose_requests_to(ServerNumber server) { deaf_.insert(server); }
  void refuse_requests_to(ServerNumber server) { refused_ = server; }
  /// From the one after so many on.
  void lose_replies_of(ServerNumber server, int after) {
    mute_ = server;
    replies_left_ = after;
  }
  void lose_all_replies() { are_all_mute_ = true; }
  /// What is sent to the server from now on comes when `deliver_late` is called.
  void delay_requests_to(ServerNumber server) { slow_ = server; }
  void deliver_late() {
    const ServerNumber server = std::exchange(slow_, std::nullopt).value();
    for (const Message& request : std::exchange(delayed_, {})) {
      EXPECT_EQ(local_.send(server, request, {}), Outcome::done);
      EXPECT_EQ(local_.receive(server, {}).status, Outcome::done);
    }
  }
  /// They come when `answer_again` is called.
  void hold_replies_of(ServerNumber server) { held_ = server; }
  void answer_again() {
    held_.reset();
    deaf_.clear();
    mute_.reset();
    are_all_mute_ = false;
  }

  [[nodiscard]] ServerNumber servers() const override { return local_.servers(); }
  Outcome send(ServerNumber server, std::span<const std::byte> request, Deadline deadline) override {
    if (refused_ == server) return Outcome::peer_lost;
    if (slow_ == server) {
      delayed_.emplace_back(request.begin(), request.end());
      return Outcome::done;
    }
    return deaf_.contains(server) ? Outcome::done : local_.send(server, request, deadline);
  }
  Result<Message> receive(ServerNumber server, Deadline deadline) override {
    if (deaf_.contains(server) || slow_ == server) return {Outcome::timed_out, {}};
    auto received = local_.receive(server, deadline);
    const bool is_mute = are_all_mute_ || (mute_ == server && replies_left_-- <= 0);
    if (is_mute) return {Outcome::timed_out, {}};
    return received;
  }
  Outcome await(ServerNumber server, Deadline /*deadline*/) override {
    return held_ == server ? Outcome::timed_out : Outcome::done;
  }
  [[nodiscard]] bool has_reply(ServerNumber server) override { return local_.has_reply(server); }
  [[nodiscard]] int sent() const noexcept { return local_.sent(); }

 private:
  LocalRequests local_;
  std::set<ServerNumber> deaf_;
  std::optional<ServerNumber> refused_;
  std::optional<ServerNumber> mute_;
  std::optional<ServerNumber> slow_;
  std::optional<ServerNumber> held_;
  std::vector<Message> delayed_;
  int replies_left_ = 0;
  bool are_all_mute_ = false;
};

class KvWriter : public testing::Test {
 protected:
  KvWriter() {
    for (ServerNumber server = 0; server < kServers; ++server) keys_[server] = key_of_server(server, kServers);
  }

  PutOutcome put_everywhere() {
    const std::vector<Write> writes{{keys_[0], "a"}, {keys_[1], "b"}, {keys_[2], "c"}};
    return session_.put_all(writes, servers_.soon());
  }
  PutOutcome put_at(ServerNumber server) {
    const Write write{keys_[server], "x"};
    return session_.put_all({&write, 1}, servers_.soon());
  }
  [[nodiscard]] std::size_t prepared_at(ServerNumber server) {
    return servers_.store_of(keys_[server]).undecided(servers_.fabric().in(std::chrono::hours(1)).at).size();
  }
  [[nodiscard]] std::uint64_t mark_at(ServerNumber server, const Timestamp& version) {
    Store& store = servers_.store_of(keys_[server]);
    const auto bytes = store.record(store.at(keys_[server], version).value());
    return mark_bits(read_record(bytes, 0, keys_[server]).value().head.mark);
  }

  LocalServers servers_{kServers};
  std::array<std::string, kServers> keys_;  // one of each server
  PatchyRequests requests_{servers_};
  AtomicSession session_{servers_.fabric(),
                         servers_.channel(),
                         requests_,
                         servers_.memories(),
                         {.session = 1, .grace = std::chrono::nanoseconds(1)}};
};

}  // namespace farside::kv
