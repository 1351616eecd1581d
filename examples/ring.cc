// ring.cc — every rank passes a token to the next one: a WRITE into its memory that wakes it.
//
//   farside run -n 4 -- build/release/bin/example_ring [ROUNDS]
#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "farside/team/team.h"

namespace {

constexpr auto kTimeout = std::chrono::seconds(5);

int pass_token(std::uint64_t rounds) {
  const auto team = farside::team::join_team();
  farside::Fabric& fabric = team->fabric();
  const auto inbox = team->allocate("inbox", sizeof(farside::ControlWord));
  const auto channel = fabric.open_channel();

  const farside::team::Rank rank = team->rank();
  const farside::team::Rank next = (rank + 1) % team->size();
  const farside::team::Rank previous = (rank + team->size() - 1) % team->size();
  const auto next_inbox = inbox->of(next).word<farside::ControlWord>(0);
  const auto own_inbox = inbox->local().word<farside::ControlWord>(0);

  // Both return whether it went well.
  const auto check = [&](farside::Outcome outcome, const char* tried, farside::team::Rank peer) {
    if (outcome == farside::Outcome::done) return true;
    std::fprintf(stderr, "rank %u: %s rank %u: %s\n", rank, tried, peer, to_string(outcome).data());
    return false;
  };
  const auto send = [&](std::uint64_t token) {
    return check(channel->write_signal(next_inbox, token, fabric.in(kTimeout)), "the token did not reach", next);
  };

  for (std::uint64_t passed = 0; passed != rounds * team->size(); passed += team->size()) {
    if (rank == 0 && !send(passed + 1)) return EXIT_FAILURE;
    const std::uint64_t mine = passed + (rank == 0 ? team->size() : rank);
    const auto arrived = channel->wait_until(
        inbox->local(), own_inbox, [mine](std::uint64_t token) { return token == mine; }, fabric.in(kTimeout),
        std::array{previous});
    if (!check(arrived, "no token from", previous)) return EXIT_FAILURE;
    if (rank != 0 && !send(mine + 1)) return EXIT_FAILURE;
  }
  if (rank == 0) std::printf("the token passed %llu ranks\n", static_cast<unsigned long long>(own_inbox.load()));
  // No rank frees its memory before all ranks have received their token.
  return team->barrier(fabric.in(kTimeout)) == farside::Outcome::done ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return pass_token(argc > 1 ? std::stoull(argv[1]) : 1);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ring: %s\n", error.what());
    return EXIT_FAILURE;
  }
}
