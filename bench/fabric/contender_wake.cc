// How long a sleeping process takes to wake: from before write_signal here until wait_until has returned there.
//
// With the argument "pipe" the sleeper reads from a pipe instead: what the kernel itself takes to wake a process.
// A question is a number of times, its answer a Timing. Both read the same clock, CLOCK_MONOTONIC of one host.
#include <cstring>
#include <thread>

#include "bench/fabric/mesh.h"

namespace farside::bench {
namespace {

// Longer than a waiter looks for its word before it sleeps.
constexpr auto kFallAsleep = std::chrono::milliseconds(2);

std::int64_t now_ns() { return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Calls `wake` once the other side sleeps, and learns on `line` when it woke.
template <class Wake>
void answer_wakes(const Line& line, Wake&& wake) {
  std::cout << "ready" << std::endl;
  for (std::string question; std::getline(std::cin, question);) {
    std::vector<double> latencies;
    for (int left = std::stoi(question); left > 0; --left) {
      std::this_thread::sleep_for(kFallAsleep);
      const std::int64_t start = now_ns();
      wake();
      latencies.push_back(static_cast<double>(std::stoll(line.receive()) - start));
    }
    std::cout << timing_of(std::move(latencies), 0).to_line() << std::endl;
  }
}

constexpr std::uint64_t kGoodbye = ~std::uint64_t{0};

void wake_by_signal(const Line& line) {
  const Mesh mesh = connect_pair(line);
  const auto signal = [&](std::uint64_t round) {
    check(mesh.channel->write_signal(mesh.remote->word<ControlWord>(0), round, mesh.fabric->in(kTimeout)));
  };
  std::uint64_t round = 0;
  answer_wakes(line, [&] { signal(++round); });
  signal(kGoodbye);
}

void sleep_by_wait_until(const Line& line) {
  const Mesh mesh = connect_pair(line);
  const LocalWord<ControlWord> word = mesh.local->word<ControlWord>(0);
  for (std::uint64_t seen = 0;;) {
    const auto changed = [seen](std::uint64_t value) { return value != seen; };
    while (mesh.channel->wait_until(*mesh.local, word, changed, mesh.fabric->in(kTimeout)) != Outcome::done) {
    }
    const std::int64_t woke = now_ns();
    seen = word.load();
    if (seen == kGoodbye) return;
    line.send(std::to_string(woke));
  }
}

int run_pipe_pair() {
  int ends[2];  // NOLINT(modernize-avoid-c-arrays): pipe wants it
  if (::pipe(ends) != 0) return 1;
  Fd read_end(ends[0]);
  Fd write_end(ends[1]);
  const auto wake = [&](const Line& line) {
    answer_wakes(line, [&] { static_cast<void>(!::write(write_end.get(), "x", 1)); });
    write_end.reset();
  };
  const auto sleep = [&](const Line& line) {
    write_end.reset();
    for (char byte = 0; ::read(read_end.get(), &byte, 1) == 1;) line.send(std::to_string(now_ns()));
  };
  return run_pair(wake, sleep);
}

}  // namespace
}  // namespace farside::bench

int main(int argc, char** argv) {
  using namespace farside::bench;
  if (argc == 2 && std::strcmp(argv[1], "pipe") == 0) return run_pipe_pair();
  return run_pair(wake_by_signal, sleep_by_wait_until);
}
