#include "bench/kv/faults.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <sstream>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "farside/base/error.h"
#include "farside/base/units.h"

#include "bench/harness/pool.h"

namespace farside::bench {

namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr unsigned kNodes = 3;
constexpr std::uint64_t kValueBytes = 1000;
constexpr milliseconds kRunUp(300);  // of a load, before the node is killed
constexpr milliseconds kCalm(1500);  // of one that meets no loss
// What is wanted of a pause within a host, and of healing: that it begins, and its part of what memory carries.
constexpr double kPauseMs = 50;
constexpr double kBeginsMs = 1000;
constexpr double kShortestMs = 2;  // that is seen of healing
constexpr double kOfMemory = 0.5;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

/// Of one kind of calls, in nanoseconds.
struct Times {
  double median;
  double p99;
  double longest;
};

struct Load {
  Times puts;
  Times gets;
};

/// From when a node was killed, in milliseconds.
struct Healing {
  double begun;
  double done;
};

/// Bytes per second of copies of 256 KiB in memory.
double memory_bandwidth() {
  constexpr std::size_t kPiece = 256U << 10U;
  constexpr std::size_t kPieces = 256;
  std::vector<std::byte> from(kPiece * kPieces, std::byte{1});
  std::vector<std::byte> to(from.size());
  const auto copy_all = [&] {
    for (std::size_t piece = 0; piece < kPieces; ++piece) {
      std::memcpy(&to[piece * kPiece], &from[piece * kPiece], kPiece);
    }
  };
  copy_all();  // so that there is memory
  const auto begin = Clock::now();
  copy_all();
  return static_cast<double>(from.size()) / (ms_since(begin) / 1e3);
}

class Store {
 public:
  Store(const Fabric& fabric, std::uint64_t keys, unsigned copies, Report& report)
      : pool_(
            {.nodes = kNodes,
             .roles = fmt::format("--cache 8M --kv {} --kv-copies {}", 64 * kMebibyte + 2 * keys * kValueBytes, copies),
             .environment = fabric.environment}),
        sessions_(start_sessions(keys, report)) {}

  /// Null when they cannot be started.
  [[nodiscard]] std::unique_ptr<Contender> start_sessions(std::uint64_t keys, Report& report) const {
    const Contender::Program program{
        {sibling_program("kv-contender-sessions"), std::to_string(keys), std::to_string(kValueBytes)},
        pool_.environment()};
    return start("a node of a store killed", {"sessions", program}, report);
  }
  [[nodiscard]] bool is_up() const { return sessions_ != nullptr; }
  [[nodiscard]] const Pool& pool() const { return pool_; }
  /// What the sessions' work took, from before `meanwhile` to after.
  template <class Meanwhile>
  [[nodiscard]] Load load(Meanwhile&& meanwhile) {
    sessions_->put("work");
    meanwhile();
    std::istringstream answer(sessions_->ask("stop"));
    Load load{};
    for (Times* times : {&load.puts, &load.gets}) answer >> times->median >> times->p99 >> times->longest;
    return load;
  }
  void check() {
    if (const std::string wrong = sessions_->ask("check"); wrong != "0") {
      throw Error({"trust", "the store", wrong + " values are lost after nodes were killed", "report this"});
    }
  }

 private:
  static constexpr std::uint64_t kMebibyte = 1U << 20U;

  const Pool pool_;
  const std::unique_ptr<Contender> sessions_;
};

class Faults {
 public:
  Faults(const Fabric& fabric, const Options& options, Report& report)
      : fabric_(fabric),
        report_(report),
        repetitions_(options.repetitions),
        keys_(options.quick  ? 3'000
              : options.full ? 1'500'000
                             : 100'000),
        store_(fabric, keys_, 2, report) {}

  void measure() {
    if (!store_.is_up()) return;
    Series gets{"", {}};
    Series puts{"", {}};
    Series calm_gets{"longest without a loss", {}};
    Series calm_puts{"longest without a loss", {}};
    Series limit{"wanted at most", {}, 1};
    Series begun{"", {}};
    Series begin_limit{"wanted at most", {}, 1};
    Series until_done{"", {}};
    Series rate{"", {}};
    Series memory{"memory's", {}, kOfMemory};
    Series p99{"", {}};
    Series calm_p99{"p99 without a loss", {}, 0.5};
    const auto watcher = store_.start_sessions(0, report_);
    if (watcher == nullptr) return;
    for (unsigned turn = 0; turn < repetitions_; ++turn) {
      show_progress(fmt::format("{}, a node killed, {} of {}", fabric_.name, turn + 1, repetitions_));
      const Load calm = store_.load([] { std::this_thread::sleep_for(kCalm); });
      Healing healing{};
      const Load load = store_.load([&] {
        std::this_thread::sleep_for(kRunUp);
        healing = kill_and_heal(turn % kNodes, *watcher);
      });
      store_.check();
      gets.repetitions.push_back(load.gets.longest);
      puts.repetitions.push_back(load.puts.longest);
      calm_gets.repetitions.push_back(calm.gets.longest);
      calm_puts.repetitions.push_back(calm.puts.longest);
      limit.repetitions.push_back(kPauseMs * 1e6);
      begun.repetitions.push_back(healing.begun);
      begin_limit.repetitions.push_back(kBeginsMs);
      // Two partitions of three are copied, each with all of its keys.
      const double bytes = 2.0 / kNodes * static_cast<double>(keys_) * kValueBytes;
      rate.repetitions.push_back(bytes / (std::max(healing.done - healing.begun, kShortestMs) / 1e3));
      until_done.repetitions.push_back(healing.done);
      memory.repetitions.push_back(memory_bandwidth());
      p99.repetitions.push_back(load.gets.p99);
      calm_p99.repetitions.push_back(calm.gets.p99);
    }
    const std::string name = fabric_.name + ", a node killed: ";
    report_.add(compare(name + "longest get", "ns", Better::lower, gets, {limit, calm_gets}));
    report_.add(compare(name + "longest put", "ns", Better::lower, puts, {limit, calm_puts}));
    report_.add(compare(name + "until there are two copies again", "ms", Better::lower, until_done, {}));
    report_.add(compare(name + "until its copies are begun", "ms", Better::lower, begun, {begin_limit}));
    report_.add(
        compare(fmt::format("{}copies made again, {} altogether", name, format_bytes(2 * keys_ * kValueBytes / kNodes)),
                "B/s", Better::higher, rate, {memory}));
    report_.add(compare(name + "p99 of gets, healing included", "ns", Better::lower, p99, {calm_p99}));
  }

  // Beside a store that keeps one, in turns.
  void measure_cost() {
    Store single(fabric_, keys_, 1, report_);
    if (!single.is_up() || !store_.is_up()) return;
    Series puts{"", {}};
    Series of_one{"one copy", {}};
    for (unsigned turn = 0; turn < repetitions_; ++turn) {
      const auto for_a_while = [] { std::this_thread::sleep_for(kCalm); };
      puts.repetitions.push_back(store_.load(for_a_while).puts.median);
      of_one.repetitions.push_back(single.load(for_a_while).puts.median);
    }
    report_.add(compare(fabric_.name + ", a put with two copies", "ns", Better::lower, puts, {of_one}));
  }

 private:
  [[nodiscard]] Healing kill_and_heal(unsigned rank, Contender& watcher) const {
    const auto status = nlohmann::json::parse(store_.pool().status());
    watcher.put("heal");
    ::kill(status.at("nodes").at(rank).at("process").get<pid_t>(), SIGKILL);
    std::istringstream answer(watcher.answer());
    Healing healing{};
    answer >> healing.begun >> healing.done;
    return healing;
  }

  const Fabric& fabric_;
  Report& report_;
  const unsigned repetitions_;
  const std::uint64_t keys_;
  Store store_;
};

}  // namespace

void measure_faults(const Fabric& fabric, const Options& options, Report& report) {
  report.continue_table(fmt::format("{}: sessions of a store with two copies, {} nodes, values of {} B", fabric.name,
                                    kNodes, kValueBytes));
  Faults faults(fabric, options, report);
  faults.measure();
  faults.measure_cost();
}

}  // namespace farside::bench
