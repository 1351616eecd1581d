// Two sessions of the pool's store at work, one that writes and one that reads, while nodes are lost. Arguments: how
// many keys, and bytes of a value. Each question is answered:
//
//   "work"   when the next line has come, with six numbers: median, 99th percentile and longest time of a put, in
//            nanoseconds, then those of a get
//   "check"  with how many values are not what was acknowledged
//   "heal"   when servers that had one copy have two again, with the milliseconds until another copy was begun, and
//   until
//            then
//
// A put and a get have one key; a value begins with the number of its round.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <future>
#include <iostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "farside/base/error.h"
#include "farside/kv/client.h"

#include "bench/harness/contend.h"
#include "bench/harness/statistics.h"

namespace farside::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Times {
  std::vector<double> ns{};

  template <class Call>
  void time(Call&& call) {
    const auto begin = Clock::now();
    call();
    ns.push_back(std::chrono::duration<double, std::nano>(Clock::now() - begin).count());
  }
  [[nodiscard]] std::string text() {
    if (ns.empty()) return "0 0 0";
    std::ranges::sort(ns);
    return std::to_string(quantile(ns, 0.5)) + " " + std::to_string(quantile(ns, 0.99)) + " " +
           std::to_string(ns.back());
  }
};

class Work {
 public:
  Work(std::size_t keys, std::size_t value_bytes) : rounds_(keys), value_(value_bytes, 'v') {
    for (std::size_t key = 0; key < keys; ++key) names_.push_back("key " + std::to_string(key));
    for (std::size_t key = 0; key < keys; ++key) put(key);
  }

  void work() {
    std::atomic<bool> is_over = false;
    Times puts;
    Times gets;
    {
      auto writer =
          std::async(std::launch::async, [&] { repeat(is_over, puts, 1, [this](std::size_t key) { put(key); }); });
      auto reader = std::async(std::launch::async,
                               [&] { repeat(is_over, gets, 2, [this](std::size_t key) { (void)get(key); }); });
      std::string line;
      std::getline(std::cin, line);
      is_over = true;
      writer.get();  // throws what it threw
      reader.get();
    }
    std::cout << puts.text() << ' ' << gets.text() << std::endl;
  }
  void await_healing() {
    constexpr std::chrono::milliseconds kBetweenLooks(2);
    constexpr std::chrono::minutes kTimeout(2);
    const auto begin = Clock::now();
    const auto ms = [begin] { return std::chrono::duration<double, std::milli>(Clock::now() - begin).count(); };
    double begun = 0;
    double done = 0;
    for (bool was_degraded = false; done == 0; std::this_thread::sleep_for(kBetweenLooks)) {
      if (Clock::now() - begin > kTimeout)
        throw Error({"await", "two copies", "they are not there in two minutes", ""});
      const auto use = reading_->use();
      if (!use.done()) continue;
      const auto any = [&use](kv::Copies copies) {
        return std::ranges::find(use.value, copies, &kv::MemoryUse::copies) != use.value.end();
      };
      if (any(kv::Copies::copying) && begun == 0) begun = ms();
      was_degraded = was_degraded || any(kv::Copies::one) || begun != 0;
      if (was_degraded && !any(kv::Copies::one) && !any(kv::Copies::copying)) done = ms();
    }
    std::cout << (begun == 0 ? done : begun) << ' ' << done << std::endl;
  }
  [[nodiscard]] std::size_t wrong() {
    std::size_t wrong = 0;
    for (std::size_t key = 0; key < names_.size(); ++key) wrong += get(key) == rounds_[key] ? 0 : 1;
    return wrong;
  }

 private:
  template <class Act>
  void repeat(const std::atomic<bool>& is_over, Times& times, unsigned seed, Act act) {
    std::mt19937_64 random(seed);
    while (!is_over) times.time([&] { act(random() % names_.size()); });
  }
  void put(std::size_t key) {
    const std::uint64_t round = rounds_[key] + 1;
    std::memcpy(value_.data(), &round, sizeof round);
    kv::PutOutcome outcome = kv::PutOutcome::unknown;
    while (outcome == kv::PutOutcome::unknown) outcome = writing_->put(names_[key], value_);
    if (outcome != kv::PutOutcome::done) throw Error({"put", names_[key], "it was refused", ""});
    rounds_[key] = round;
  }
  [[nodiscard]] std::uint64_t get(std::size_t key) {
    const auto got = reading_->get(names_[key]);
    if (!got.done() || !got.value.present) throw Error({"get", names_[key], "it failed, or found nothing", ""});
    std::uint64_t round = 0;
    std::memcpy(&round, got.value.value.data(), sizeof round);
    return round;
  }

  kv::Client client_;
  const std::unique_ptr<kv::Session> writing_ = client_.open_session();
  const std::unique_ptr<kv::Session> reading_ = client_.open_session();
  std::vector<std::string> names_;
  std::vector<std::uint64_t> rounds_;
  std::string value_;
};

void run(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  Work work(std::stoull(words.at(0)), std::stoull(words.at(1)));
  std::cout << "ready" << std::endl;
  for (std::string question; std::getline(std::cin, question);) {
    if (question == "work") {
      work.work();
    } else if (question == "heal") {
      work.await_healing();
    } else if (question == "check") {
      std::cout << work.wrong() << std::endl;
    }
  }
}

}  // namespace
}  // namespace farside::bench

int main(int argc, char** argv) {
  return farside::bench::contend([&] { farside::bench::run(argc, argv); });
}
