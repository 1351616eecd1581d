#include "bench/far/losses.h"

#include <array>
#include <chrono>
#include <csignal>
#include <sstream>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "farside/base/error.h"

#include "bench/harness/pool.h"

namespace farside::bench {

namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr unsigned kNodes = 3;
constexpr std::uint64_t kPageBytes = 4096;
constexpr milliseconds kRunUp(300);  // of a load, before the node is killed
constexpr milliseconds kCalm(1500);  // of one that meets no loss
constexpr auto kTimeout = std::chrono::minutes(1);

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

/// Of one load, in nanoseconds.
struct Times {
  double median;
  double longest;
};

class Losses {
 public:
  Losses(const Fabric& fabric, const Options& options, Report& report)
      : fabric_(fabric),
        report_(report),
        repetitions_(options.repetitions),
        pages_(options.quick ? 4096 : 32768),
        pool_({.nodes = kNodes,
               .roles = "--cache 16M --far 256M",
               .environment = fabric.environment,
               .inside = fabric.on_lender}) {}

  void measure(const std::string& way) {
    const std::string name = fmt::format("{}, {}", fabric_.name, way);
    const auto contender = start(name + ", a node killed", {way, fabric_.used_by(program(way))}, report_);
    if (contender == nullptr) return;
    Series pause{"", {}};
    Series without{"longest without a loss", {}};
    Series median{"median", {}};
    Series mirrored{"", {}};
    for (unsigned turn = 0; turn < repetitions_; ++turn) {
      without.repetitions.push_back(load(*contender, [] { std::this_thread::sleep_for(kCalm); }).longest);
      const Times times = load(*contender, [&] {
        std::this_thread::sleep_for(kRunUp);
        mirrored.repetitions.push_back(lose_a_node(turn % kNodes));
      });
      pause.repetitions.push_back(times.longest);
      median.repetitions.push_back(times.median);
      await([&] { return node(turn % kNodes).at("state") == "up"; }, "the node to come back");
    }
    if (const std::string wrong = contender->ask("check"); wrong != "0") {
      throw Error({"trust", name, wrong + " pages are wrong after nodes were killed", "report this"});
    }
    report_.add(compare(name + ", a node killed: longest pause", "ns", Better::lower, pause, {without, median}));
    report_.add(compare(name + ", a node killed: until mirrored again", "ms", Better::lower, mirrored, {}));
  }

 private:
  [[nodiscard]] Contender::Program program(const std::string& way) const {
    const std::uint64_t here = pages_ / 4;
    std::vector<std::string> command;
    if (way == "farside far") {
      // The contender has UCX, whose own hooks of mmap would go around farside far's.
      command = {sibling_program("../../bin/farside"), "far", "--mirror", "--local",
                 std::to_string(here * kPageBytes),    "--",  "env",      "UCX_MEM_MMAP_HOOK_MODE=none"};
    }
    command.insert(command.end(), {sibling_program("far-contender-loss"), way == "heap" ? "heap" : "plain",
                                   std::to_string(pages_), std::to_string(here)});
    return {command, pool_.environment()};
  }

  /// What its work took, from before `meanwhile` to after.
  template <class Meanwhile>
  [[nodiscard]] static Times load(Contender& contender, Meanwhile&& meanwhile) {
    contender.put("work");
    meanwhile();
    std::istringstream answer(contender.ask("stop"));
    Times times{};
    answer >> times.median >> times.longest;
    return times;
  }

  /// Milliseconds until everything lies on two nodes again, as far as `farside status` can tell.
  [[nodiscard]] double lose_a_node(unsigned rank) const {
    const std::uint64_t before = lent();
    const auto begin = Clock::now();
    ::kill(node(rank).at("process").get<pid_t>(), SIGKILL);
    await([&] { return lent() >= before; }, "what a killed node had to be copied");
    return ms_since(begin);
  }

  [[nodiscard]] nlohmann::json node(unsigned rank) const {
    return nlohmann::json::parse(pool_.status()).at("nodes").at(rank);
  }
  [[nodiscard]] std::uint64_t lent() const {
    std::uint64_t sum = 0;
    const auto status = nlohmann::json::parse(pool_.status());
    for (const auto& one : status.at("far").at("nodes")) sum += one.value("bytes_lent", std::uint64_t{0});
    return sum;
  }

  template <class Condition>
  static void await(Condition&& condition, const std::string& what) {
    const auto begin = Clock::now();
    while (!condition()) {
      if (Clock::now() - begin > kTimeout) throw Error({"await", what, "it did not within a minute", "see the log"});
      std::this_thread::sleep_for(milliseconds(10));
    }
  }

  const Fabric& fabric_;
  Report& report_;
  const unsigned repetitions_;
  const std::uint64_t pages_;
  const Pool pool_;
};

}  // namespace

void measure_losses(const Fabric& fabric, const Options& options, Report& report) {
  report.continue_table("A node killed under load, mirrored");
  Losses losses(fabric, options, report);
  for (const char* const way : {"heap", "farside far"}) losses.measure(way);
}

}  // namespace farside::bench
