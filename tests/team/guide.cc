// The samples of docs/team.md, word for word (guide_test compares them), as one program.
#include <array>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <span>
#include <vector>

#include "farside/base/error.h"
#include "farside/team/team.h"

namespace {

using namespace farside;

void require(bool holds, const char* what) {
  if (!holds) throw Error({"run", "a sample", what, ""});
}

void run() {
  const auto team = team::join_team();
  const auto inbox = team->allocate("inbox", 2 * sizeof(ControlWord) + sizeof(AtomicWord) + 4096);
  const auto channel = team->fabric().open_channel();  // of this thread
  const Deadline deadline = team->fabric().in(std::chrono::seconds(60));

  const team::Rank next = (team->rank() + 1) % team->size();
  const RemoteRegion& there = inbox->of(next);
  std::array<std::uint64_t, 512> numbers{};
  numbers.fill(team->rank());
  Outcome outcome = channel->write(there.span(24, sizeof numbers), LocalSpan(numbers), deadline);
  if (outcome == Outcome::done) outcome = channel->write_signal(there.word<ControlWord>(0), 1, deadline);
  require(outcome == Outcome::done, "the signal did not arrive");

  const team::Rank previous = (team->rank() + team->size() - 1) % team->size();
  const auto is_set = [](std::uint64_t value) { return value == 1; };
  const auto own_word = inbox->local().word<ControlWord>(0);
  const std::array sender{previous};  // its death ends the wait at once
  outcome = channel->wait_until(inbox->local(), own_word, is_set, deadline, sender);
  if (outcome == Outcome::done) {
    channel->local_fence();  // what is read from here on is read after the word
    inbox->local().copy_out(24, std::as_writable_bytes(std::span(numbers)));
  }
  require(numbers.front() == previous && numbers.back() == previous, "other numbers arrived");

  std::vector<std::uint64_t> old(team->size());
  Batch batch(*channel);
  for (team::Rank rank = 0; rank < team->size(); ++rank) {
    batch.fetch_add(inbox->of(rank).word<AtomicWord>(16), 1, old[rank]);
  }
  outcome = batch.wait(deadline);
  if (outcome == Outcome::peer_lost && !team->alive(next)) std::cout << "rank " << next << " is lost\n";
  require(outcome == Outcome::done && old[next] < team->size(), "the additions failed");

  if (team->barrier(deadline) != Outcome::done) std::cout << "a rank is lost\n";
}

}  // namespace

int main() {
  try {
    run();
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return EXIT_FAILURE;
  }
}
