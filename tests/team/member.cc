// One member of a team, as a test launches it: team_member SCENE. Exits with 1, and says why, when what it sees is not
// what the scene promises.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>

#include <signal.h>
#include <unistd.h>

#include "farside/base/error.h"
#include "farside/team/team.h"

#include "tests/support/descriptors.h"
#include "tests/support/reduced.h"

namespace farside::team {
namespace {

using std::chrono::seconds;

const Duration kTimeout = test::extended(seconds(60));  // only a failing test waits that long

void expect(bool holds, const std::string& otherwise) {
  if (!holds) throw std::runtime_error(otherwise);
}

void expect_done(Outcome outcome, const std::string& what) {
  expect(outcome == Outcome::done, what + ": " + std::string(to_string(outcome)));
}

// Passes `token` once around the ranks 0 to count - 1, each adding one.
void pass_around(Team& team, const SymmetricRegion& region, Rank count, std::uint64_t token) {
  const auto channel = team.fabric().open_channel();
  const Deadline deadline = team.fabric().in(kTimeout);
  const Rank next = (team.rank() + 1) % count;
  const std::uint64_t expected = token + (team.rank() == 0 ? count : team.rank());
  const auto send = [&](std::uint64_t value) {
    const Outcome outcome = channel->write_signal(region.of(next).word<ControlWord>(0), value, deadline);
    // The rank that has the token may be done and have left before this one hears so. Without the token it would have
    // failed.
    expect(outcome != Outcome::timed_out, "signalling the next rank timed out");
  };
  if (team.rank() == 0) send(token + 1);
  const auto arrived = [&](std::uint64_t value) { return value == expected; };
  expect_done(channel->wait_until(region.local(), region.local().word<ControlWord>(0), arrived, deadline),
              "wait for the previous rank");
  if (team.rank() != 0) send(expected + 1);
}

// Waits for a signal that never comes from a rank that is about to be lost.
void wait_for_loss(Team& team, const SymmetricRegion& region, Rank rank) {
  const auto channel = team.fabric().open_channel();
  const auto never = [](std::uint64_t) { return false; };
  const Outcome outcome = channel->wait_until(region.local(), region.local().word<ControlWord>(8), never,
                                              team.fabric().in(kTimeout), std::array{rank});
  expect(outcome == Outcome::peer_lost, "the wait ended with " + std::string(to_string(outcome)));
  expect(!team.alive(rank), "the lost rank counts as alive");
  expect(team.epoch() >= 1, "a loss did not advance the epoch");  // others may be done and have left
}

/// Every rank reaches its neighbour's memory, in memory that was there and in memory that came later.
void ring(Team& team) {
  for (const std::uint64_t token : {100, 200, 300}) {
    const auto region = team.allocate("ring", 4096 + token);
    pass_around(team, *region, team.size(), token);
    expect_done(team.barrier(team.fabric().in(kTimeout)), "the barrier");
  }
  std::cout << "rank " + std::to_string(team.rank()) + " of " + std::to_string(team.size()) + "\n" << std::flush;
}

/// The last rank dies; the others see it and go on.
void die(Team& team) {
  const Rank last = team.size() - 1;
  const auto region = team.allocate("words", 64);
  expect_done(team.barrier(team.fabric().in(kTimeout)), "the barrier before the death");
  if (team.rank() == last) {
    // The others measure the time from here: one host, one clock.
    const auto channel = team.fabric().open_channel();
    const std::uint64_t now = static_cast<std::uint64_t>(team.fabric().now().nanoseconds);
    for (Rank rank = 0; rank < last; ++rank) {
      expect_done(channel->store(region->of(rank).word<ControlWord>(16), now, team.fabric().in(kTimeout)), "a store");
      expect_done(channel->flush(rank, team.fabric().in(kTimeout)), "a flush");
    }
    ::raise(SIGKILL);
  }
  wait_for_loss(team, *region, last);
  const auto died = static_cast<std::int64_t>(region->local().word<ControlWord>(16).load());
  const auto took = team.fabric().now() - Time{died};
  expect(took < seconds(2), "the death was seen only after " + std::to_string(took.count() / 1'000'000) + " ms");
  expect(team.barrier(team.fabric().in(kTimeout)) == Outcome::peer_lost, "a barrier without the dead rank ended");
  pass_around(team, *region, last, 500);
}

/// The last rank stops; rank 0 takes its access away, which kills it; all see it and go on.
void evict(Team& team) {
  const Rank last = team.size() - 1;
  const auto region = team.allocate("words", 64);
  expect_done(team.barrier(team.fabric().in(kTimeout)), "the barrier before the stop");
  const auto channel = team.fabric().open_channel();
  const Deadline deadline = team.fabric().in(kTimeout);
  if (team.rank() == last) {
    (void)channel->write_signal(region->of(0).word<ControlWord>(16), 1, deadline);  // perhaps the eviction is faster
    ::raise(SIGSTOP);
    throw std::runtime_error("the evicted rank went on");
  }
  if (team.rank() == 0) {
    const auto stops = [](std::uint64_t value) { return value == 1; };
    expect_done(channel->wait_until(region->local(), region->local().word<ControlWord>(16), stops, deadline),
                "wait for the stop");
    expect_done(team.evict(last, deadline), "the eviction");
  }
  wait_for_loss(team, *region, last);
  pass_around(team, *region, last, 500);
}

/// The last rank, alone on its host, stops; its silence is noticed, and the others go on. Continued, it finds itself
/// cut off.
void stall(Team& team) {
  const Rank last = team.size() - 1;
  const auto region = team.allocate("words", 64);
  expect_done(team.barrier(team.fabric().in(kTimeout)), "the barrier before the stop");
  if (team.rank() == last) {
    ::raise(SIGSTOP);
    wait_for_loss(team, *region, 0);
    return;
  }
  wait_for_loss(team, *region, last);
  pass_around(team, *region, last, 500);
}

/// The last rank exits with code 7; the others would wait for a minute.
void fail(Team& team) {
  const auto region = team.allocate("words", 64);
  expect_done(team.barrier(team.fabric().in(kTimeout)), "the barrier");
  if (team.rank() == team.size() - 1) std::exit(7);
  ::pause();
}

/// As `fail`, but killed by a signal.
void crash(Team& team) {
  expect_done(team.barrier(team.fabric().in(kTimeout)), "the barrier");
  if (team.rank() == team.size() - 1) ::raise(SIGKILL);
  ::pause();
}

/// Says that it is there and waits for a signal.
void linger(Team& team) {
  expect_done(team.barrier(team.fabric().in(kTimeout)), "the barrier");
  std::cout << "here\n" << std::flush;
  ::pause();
}

/// Rank 0 frees its memory while the others still use it. That harms no rank but those that do.
void free_early(Team& team) {
  auto region = team.allocate("words", 1 << 20);
  const auto channel = team.fabric().open_channel();
  expect_done(team.barrier(team.fabric().in(kTimeout)), "the barrier before");
  if (team.rank() == 0) {
    region.reset();
  } else {
    for (int i = 0; i < 200; ++i) {
      std::uint64_t word = 7;
      expect_done(channel->read(LocalSpan(word), region->of(0).span(4096, 8), team.fabric().in(kTimeout)), "a READ");
      expect_done(channel->write(region->of(0).span(4096, 8), LocalSpan(word), team.fabric().in(kTimeout)), "a WRITE");
      expect_done(channel->flush(0, team.fabric().in(kTimeout)), "a flush");
    }
  }
  expect_done(team.barrier(team.fabric().in(kTimeout)), "the barrier after");
}

/// No socket of this process can be reached from outside, and an idle team takes no CPU time.
void frugal(Team& team) {
  for (const char* table : {"tcp", "tcp6", "udp", "udp6"}) {
    std::ifstream file(std::string("/proc/self/net/") + table);
    const std::string sockets{std::istreambuf_iterator<char>(file), {}};
    for (const auto& fd : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code closed;  // the directory's own descriptor
      const std::string target = std::filesystem::read_symlink(fd.path(), closed);
      if (!target.starts_with("socket:[")) continue;
      const std::string inode = " " + target.substr(8, target.size() - 9) + " ";
      expect(sockets.find(inode) == std::string::npos, std::string("it has a socket of kind ") + table);
    }
  }
  const std::clock_t before = std::clock();
  std::this_thread::sleep_for(seconds(1));
  const auto busy_ms = (std::clock() - before) * 1000 / CLOCKS_PER_SEC;
  expect(busy_ms < 10, "an idle second took " + std::to_string(busy_ms) + " ms of CPU time");
  expect_done(team.barrier(team.fabric().in(kTimeout)), "the barrier");
}

/// Ranks that disagree about an allocation are told so.
void disagree(Team& team) {
  try {
    (void)team.allocate("memory", 64 + 8 * team.rank());
    throw std::runtime_error("an allocation of different sizes was accepted");
  } catch (const Error& error) {
    expect(std::string(error.what()).find("it allocates memory of") != std::string::npos, error.what());
  }
}

std::uint64_t shared_memory_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssShmem:")) return std::stoull(line.substr(9));
  }
  throw std::runtime_error("no RssShmem in /proc/self/status");
}

void eventually(const std::function<bool()>& holds, const std::string& otherwise) {
  const auto give_up = std::chrono::steady_clock::now() + kTimeout;
  while (!holds()) {
    expect(std::chrono::steady_clock::now() < give_up, otherwise);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

constexpr std::uint64_t kReturnBytes = 4 << 20;
constexpr std::uint64_t kTidings = 16;                                       // of the last rank, at the others
std::uint64_t answer_of(Rank rank) { return 64 + std::uint64_t{rank} * 8; }  // at the last rank

// One life of the last rank: it says that it is there, and goes when all have heard.
void live_once(Team& team, const SymmetricRegion& region, bool die) {
  const Rank last = team.rank();
  const std::uint64_t life = team.incarnation() + 1U;
  const auto channel = team.fabric().open_channel();
  const Deadline deadline = team.fabric().in(kTimeout);
  expect(region.local().word<ControlWord>(answer_of(0)).load() == 0, "the memory of a new life is not empty");
  const std::vector<std::byte> some(kReturnBytes - 4096, std::byte{7});
  region.local().copy_in(4096, some);
  for (Rank rank = 0; rank < last; ++rank) {
    expect_done(channel->write_signal(region.of(rank).word<ControlWord>(kTidings), life, deadline), "the tidings");
  }
  for (Rank rank = 0; rank < last; ++rank) {
    const auto heard = [life](std::uint64_t value) { return value == life; };
    expect_done(channel->wait_until(region.local(), region.local().word<ControlWord>(answer_of(rank)), heard, deadline),
                "wait for an answer");
  }
  if (die) ::raise(SIGKILL);
}

// What another rank sees of it. Returns the epoch of that life, which ends with it.
std::uint64_t see_life(Team& team, const SymmetricRegion& region, std::uint64_t life) {
  const Rank last = team.size() - 1;
  const auto channel = team.fabric().open_channel();
  const Deadline deadline = team.fabric().in(kTimeout);
  const auto heard = [life](std::uint64_t value) { return value == life; };
  expect_done(channel->wait_until(region.local(), region.local().word<ControlWord>(kTidings), heard, deadline),
              "wait for life " + std::to_string(life));
  std::vector<std::byte> some(kReturnBytes - 4096);
  const LocalSpan into(some.data(), some.size());
  const auto read = [&] { return channel->read(into, region.of(last).span(4096, some.size()), deadline); };
  eventually([&] { return read() == Outcome::done; }, "the memory of a new life cannot be read");
  expect(some.back() == std::byte{7}, "the memory is not that of the new life");
  const std::uint64_t epoch = team.epoch();
  const auto answer = region.of(last).word<ControlWord>(answer_of(team.rank()));
  expect(channel->write_signal(answer, life, deadline) != Outcome::timed_out, "the answer timed out");
  return epoch;
}

/// The last rank dies and comes back, as often as FARSIDE_MEMBER_LIVES says; then all work together as if nothing had
/// been. What it leaves behind at the others is nothing.
void come_back(Team& team) {
  const std::uint64_t lives = std::stoull(std::getenv("FARSIDE_MEMBER_LIVES"));
  const Rank last = team.size() - 1;
  const auto region = team.allocate("words", kReturnBytes);
  std::size_t descriptors = 0;
  if (team.rank() == last) live_once(team, *region, team.incarnation() + 1U < lives);
  for (std::uint64_t life = 1; team.rank() != last && life <= lives; ++life) {
    const std::uint64_t before = shared_memory_kib();
    const RemoteRegion& old = region->of(last);
    const std::uint64_t epoch = see_life(team, *region, life);
    if (life == lives) break;
    eventually([&] { return team.epoch() > epoch; }, "a death did not advance the epoch");
    const auto channel = team.fabric().open_channel();
    const Outcome late = channel->store(old.word<ControlWord>(answer_of(0)), 1, team.fabric().in(kTimeout));
    expect(late == Outcome::peer_lost, "a WRITE to a past life: " + std::string(to_string(late)));
    eventually([&] { return shared_memory_kib() <= before + 1024; }, "the memory of a past life is kept");
    if (life == 3) descriptors = test::open_descriptors();
    expect(life <= 3 || test::open_descriptors() <= descriptors + 3, "descriptors of past lives are kept");
  }
  // Who enters a barrier while others have not heard of all lives and deaths is told so.
  eventually([&] { return team.barrier(team.fabric().in(kTimeout)) == Outcome::done; }, "no barrier ends");
  pass_around(team, *region, team.size(), 700);
  const auto later = team.allocate("later", 4096);
  pass_around(team, *later, team.size(), 800);
  expect_done(team.barrier(team.fabric().in(kTimeout)), "the last barrier");
}

int play(const std::string& scene) {
  const std::map<std::string, std::function<void(Team&)>> scenes{
      {"ring", ring},
      {"die", die},
      {"evict", evict},
      {"fail", fail},
      {"crash", crash},
      {"linger", linger},
      {"disagree", disagree},
      {"frugal", frugal},
      {"free_early", free_early},
      {"stall", stall},
      {"come_back", come_back},
  };
  const auto team = join_team();
  scenes.at(scene)(*team);
  return 0;
}

}  // namespace
}  // namespace farside::team

#if defined(__SANITIZE_ADDRESS__)
// PMIx itself does not free a few bytes of its start-up.
extern "C" const char* __lsan_default_suppressions() { return "leak:libpmix"; }
#endif

int main(int argc, char** argv) {
  try {
    return farside::team::play(argc > 1 ? argv[1] : "ring");
  } catch (const std::exception& error) {
    std::cerr << "member: " << error.what() << '\n';
    return 1;
  }
}
