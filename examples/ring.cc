// ring.cc — every rank passes a token to the next one: a WRITE into its memory that wakes it.
//
//   farside run -n 4 -- build/release/bin/example_ring
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "farside/team/team.h"

namespace {

int pass_token() {
  const auto team = farside::join_team();
  farside::Fabric& fabric = team->fabric();
  const auto inbox = team->allocate("inbox", sizeof(farside::ControlWord));
  const auto channel = fabric.open_channel();
  const farside::Deadline deadline = fabric.in(std::chrono::seconds(10));

  const farside::Rank next = (team->rank() + 1) % team->size();
  const auto next_inbox = inbox->of(next).word<farside::ControlWord>(0);
  const auto own_inbox = inbox->local().word<farside::ControlWord>(0);

  if (team->rank() == 0) (void)channel->write_signal(next_inbox, 1, deadline);
  const auto arrived = channel->wait_until(
      inbox->local(), own_inbox, [](std::uint64_t token) { return token != 0; }, deadline);
  if (arrived != farside::Outcome::done) {
    std::fprintf(stderr, "rank %u: no token: %s\n", team->rank(), to_string(arrived).data());
    return EXIT_FAILURE;
  }
  if (team->rank() != 0) (void)channel->write_signal(next_inbox, own_inbox.load() + 1, deadline);
  if (team->rank() == 0) {
    std::printf("the token passed %llu ranks\n", static_cast<unsigned long long>(own_inbox.load()));
  }
  // Nobody's memory goes before all have got their token.
  return team->barrier(deadline) == farside::Outcome::done ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace

int main() {
  try {
    return pass_token();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ring: %s\n", error.what());
    return EXIT_FAILURE;
  }
}
