// The threads of one process, on their node's memory: the floor of what ranks do. An amount is a number of threads.
#include <atomic>
#include <barrier>
#include <cstring>
#include <deque>
#include <map>
#include <numeric>
#include <span>

#include <sched.h>

#include "bench/comm/amounts.h"
#include "bench/comm/threads/crew.h"

namespace farside::bench {
namespace {

class Node {
 public:
  void offer(Work& work) {
    work.alone("read", [this](std::uint64_t threads, std::uint64_t rounds) {
      stream(threads, rounds,
             [](Buffers& own) { own.sum = std::accumulate(own.from.begin(), own.from.end(), own.sum); });
    });
    work.alone("write", [this](std::uint64_t threads, std::uint64_t rounds) {
      stream(threads, rounds, [](Buffers& own) { std::memset(own.to.data(), 1, kStreamedBytes); });
    });
    work.alone("copy", [this](std::uint64_t threads, std::uint64_t rounds) {
      stream(threads, rounds, [](Buffers& own) { std::memcpy(own.to.data(), own.from.data(), kStreamedBytes); });
    });
    work.together("std-barrier", [this](std::uint64_t threads, std::uint64_t rounds) { meet(threads, rounds); });
    work.together("flags", [this](std::uint64_t threads, std::uint64_t rounds) { meet_by_flags(threads, rounds); });
  }

 private:
  /// What one thread streams through.
  struct Buffers {
    std::vector<std::uint64_t> from = std::vector<std::uint64_t>(kStreamedBytes / 8, 1);
    std::vector<std::uint64_t> to = std::vector<std::uint64_t>(kStreamedBytes / 8, 1);
    std::uint64_t sum = 0;
  };
  struct alignas(64) Flag {
    std::atomic<std::uint64_t> round = 0;
  };

  Crew& crew(std::uint64_t threads) {
    return crews_.try_emplace(threads, static_cast<unsigned>(threads)).first->second;
  }

  template <class Pass>
  void stream(std::uint64_t threads, std::uint64_t rounds, Pass pass) {
    while (buffers_.size() < threads) buffers_.emplace_back();
    crew(threads).run([&](unsigned index) {
      for (std::uint64_t round = 0; round < rounds; ++round) pass(buffers_[index]);
    });
  }

  void meet(std::uint64_t threads, std::uint64_t rounds) {
    std::barrier<> barrier(static_cast<std::ptrdiff_t>(threads));
    crew(threads).run([&](unsigned) {
      for (std::uint64_t round = 0; round < rounds; ++round) barrier.arrive_and_wait();
    });
  }

  // The paper's: each raises a flag of its own; the first one looks for them all and tells the others.
  static void await(const Flag& flag, std::uint64_t round) {
    for (int look = 1; flag.round.load(std::memory_order_acquire) < round; ++look) {
      if (look % 64 == 0) ::sched_yield();  // there may be more threads than cores
    }
  }
  void meet_by_flags(std::uint64_t threads, std::uint64_t rounds) {
    std::vector<Flag> flags(threads);
    crew(threads).run([&](unsigned index) {
      for (std::uint64_t round = 1; round <= rounds; ++round) {
        if (index == 0) {
          for (const Flag& other : std::span(flags).subspan(1)) await(other, round);
        }
        flags[index].round.store(round, std::memory_order_release);
        if (index != 0) await(flags[0], round);
      }
    });
  }

  std::map<std::uint64_t, Crew> crews_;
  std::deque<Buffers> buffers_;
};

}  // namespace
}  // namespace farside::bench

int main() {
  farside::bench::Node node;
  farside::bench::Work work;
  node.offer(work);
  work.answer_questions([](const farside::bench::Command&) {});
  return 0;
}
