// A client that does not let a reply in, since it was stopped: what it costs the server, which has others to serve.
#include <gtest/gtest.h>

#include "kv/mailbox/served_mailbox.h"
#include "tests/kv/server/store_fixture.h"

namespace farside::kv::test {
namespace {

/// What is posted through it goes nowhere, and a caller that waits for it waits until its deadline.
class StuckChannel final : public Channel {
 public:
  explicit StuckChannel(FabricWithClock& fabric) : fabric_(fabric) {}

  [[nodiscard]] Duration waited() const { return waited_; }

  Outcome fence(PeerId /*peer*/, Deadline /*deadline*/) override { return Outcome::done; }
  Outcome flush(PeerId /*peer*/, Deadline deadline) override { return wait(deadline); }
  Outcome flush_all(Deadline deadline) override { return wait(deadline); }
  Outcome flush_each(std::span<const PeerId> /*peers*/, Deadline deadline) override { return wait(deadline); }
  void local_fence() override {}
  Outcome write_signals(std::span<const RemoteWord<ControlWord>> /*words*/, std::uint64_t /*value*/,
                        Deadline deadline) override {
    return wait(deadline);
  }
  Result<std::uint64_t> add_signal(RemoteWord<AtomicWord> /*word*/, std::uint64_t /*addend*/,
                                   Deadline deadline) override {
    return {wait(deadline), 0};
  }

 private:
  void post(const Operation& /*operation*/, Completion& /*completion*/) override {}
  void finish(Completion& /*completion*/, Deadline /*deadline*/) override {}
  Outcome wait_change(const Region& /*region*/, std::uint64_t /*offset*/, std::uint64_t /*seen*/, Deadline deadline,
                      const Awaited& /*awaited*/) override {
    return wait(deadline);
  }
  [[nodiscard]] std::uint64_t lives_of(std::span<const PeerId> /*peers*/) const override { return 0; }

  Outcome wait(Deadline deadline) {
    const Duration left = deadline.at - fabric_.now();
    waited_ += left;
    fabric_.pass(left);
    return Outcome::timed_out;
  }

  FabricWithClock& fabric_;
  Duration waited_{};
};

TEST(AStuckClient, TakesLittleOfItsServersTimeUntilItIsGivenUp) {
  constexpr PeerId kSelf = 0;
  const MailboxShape shape;
  const auto inner = make_host_fabric({.mode = FabricMode::direct});
  inner->connect(kSelf, inner->address());
  const auto channel = inner->open_channel();
  const auto servers = inner->create_region("server's", shape.ring_bytes());
  const auto clients = inner->create_region("client's", shape.ring_bytes());
  const auto to_server = inner->attach(kSelf, servers->handle());
  const auto to_client = inner->attach(kSelf, clients->handle());

  MailboxSender client(*inner, *channel, {clients.get(), 0, to_server.get(), 0, true, {}}, shape, {}, {});
  const Message request(8);
  ASSERT_EQ(client.send({}, request, inner->in(std::chrono::seconds(30))), Outcome::done);

  FabricWithClock fabric(*inner);
  StuckChannel stuck(fabric);
  ServedMailbox mailbox(fabric, stuck, {servers.get(), 0, to_client.get(), 0, false, {}}, shape, Waking::polled);
  ASSERT_EQ(mailbox.poll(), ServedMailbox::Came::request);
  mailbox.reply(Message(8));
  const Time began = fabric.now();
  while (mailbox.poll() != ServedMailbox::Came::end) fabric.pass(std::chrono::milliseconds(1));
  const Duration lasted = fabric.now() - began;
  EXPECT_GE(lasted, std::chrono::seconds(30));
  EXPECT_LE(lasted, std::chrono::seconds(70));
  EXPECT_LE(stuck.waited(), lasted / 30);
}

}  // namespace
}  // namespace farside::kv::test
