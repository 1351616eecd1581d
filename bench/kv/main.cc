// farside bench kv: read-atomic transactions in each way to read, over each transport, beside two-phase locking and
// Redis. Figures 4 to 7 of Murata, Kawashima and Tatebe, RAMP over RDMA: 4 servers, a client of 8 threads.
#include <array>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "farside/base/units.h"

#include "bench/harness/entrant.h"
#include "bench/harness/program.h"
#include "bench/harness/race.h"
#include "bench/kv/faults.h"
#include "bench/kv/figures.h"
#include "plot/plot.h"

namespace farside::bench {
namespace {

constexpr unsigned kServers = 4;
constexpr std::uint64_t kUsualKeys = 8;
constexpr const char* kUsualMix = "95";
constexpr std::uint64_t kLargeBytes = 1000;
constexpr std::array<std::uint64_t, 6> kTransactionSizes{1, 2, 4, 8, 16, 32};
constexpr std::array<unsigned, 5> kReadPercents{0, 25, 50, 75, 100};
constexpr std::array<std::uint64_t, 5> kRows{1'000, 10'000, 100'000, 1'000'000, 10'000'000};
constexpr std::uint64_t kMaxQuickRows = 1'000;
constexpr std::uint64_t kMaxRows = 1'000'000;  // unless all is wanted

// Wanted on memory.
constexpr double kAskOverSockets = 2.06;
constexpr double kAddressesOverSockets = 2.67;
constexpr double kAddressesOverAsk = 1.29;
constexpr double kReadsOverRedis = 5;

const std::string kCells = "cells";
const std::string kAddresses = "GET*/PUT+";
const std::string kAsk = "GET+/PUT+";
const std::string kSockets = "GET/PUT";
const std::string kLocking = "S2PL";
const std::string kRedis = "Redis";

/// A run of the benchmark on one fabric.
class Bench {
 public:
  Bench(const Fabric& fabric, const Options& options, Report& report)
      : fabric_(fabric), options_(options), report_(report) {}

  void measure_transports();
  void measure_schemes();
  void measure_against_redis();
  void measure_servers();
  void measure_protocol();

 private:
  using Job = std::unique_ptr<Contender>;

  [[nodiscard]] Job start_farside(const std::string& transport, const std::string& isolation = "ramp",
                                  const std::string& grace_ms = "2000", unsigned servers = kServers) {
    const Entrant entrant{"farside, " + transport, farside_program(fabric_, servers + 1, "kv-contender-farside",
                                                                   {transport, isolation, grace_ms})};
    return start(fmt::format("{}, {} over {}", fabric_.name, isolation, transport), entrant, report_);
  }
  [[nodiscard]] bool on_memory() const { return &fabric_ == &direct(); }
  [[nodiscard]] KvQuestion question() const {
    KvQuestion question;
    question.mix = kUsualMix;
    question.keys = kUsualKeys;
    question.budget_ms = options_.quick ? 5 : options_.full ? 1000 : 100;
    return question;
  }
  [[nodiscard]] KvRace race(const std::string& name, std::span<const Contestant> contestants,
                            const KvQuestion& question) const {
    show_progress(fabric_.name + " " + name);
    return {contestants, question, options_.repetitions};
  }
  void measure_sizes(std::span<const Contestant> all);
  void measure_reads(std::span<const Contestant> all, const std::string& table, std::uint64_t value_bytes,
                     const std::string& plot);
  void compare_schemes(const std::vector<std::pair<double, KvRace>>& races, const std::string& table,
                       std::uint64_t value_bytes);
  void measure_ycsb(std::span<const Contestant> all);
  void measure_threads(std::span<const Contestant> all);
  void measure_latency(std::span<const Contestant> all);
  void measure_rows(Contender& mailbox);
  void measure_reclaiming(Contender& mailbox);
  void draw_curves(const std::string& title, const std::string& x, const std::vector<std::pair<double, KvRace>>& races,
                   const std::string& file) const;

  const Fabric& fabric_;
  const Options& options_;
  Report& report_;
};

// Figure 4.
void Bench::measure_transports() {
  const Job mailbox = start_farside("mailbox");
  const Job polled = start_farside("polled");
  const Job two_sided = start_farside("send_receive");
  const Job socket = start_farside("socket");
  if (mailbox == nullptr || polled == nullptr || two_sided == nullptr || socket == nullptr) return;
  const std::string two_sides = "send/receive";
  const std::vector<Contestant> contestants{{mailbox.get(), "ask", "RDMA WRITE"},
                                            {polled.get(), "ask", "without a doorbell"},
                                            {two_sided.get(), "ask", two_sides},
                                            {socket.get(), "ask", "sockets"}};
  report_.continue_table(
      fmt::format("{}: figure 4, transports, {} keys of 64 B, {} % reads", fabric_.name, kUsualKeys, kUsualMix));
  const KvRace transports = race("transports", contestants, question());
  report_.add(transports.throughput(fabric_.name + " transports"));
  report_.add(transports.ratio(fabric_.name + " transports", {two_sides, "sockets"}));
}

// Figures 5 to 7, and what is beyond them. Each has its own store: who writes reclaims what was written 2 s before.
void Bench::measure_schemes() {
  const Job cells = start_farside("mailbox");
  const Job addresses = start_farside("mailbox");
  const Job ask = start_farside("mailbox");
  const Job socket = start_farside("socket");
  const Job locking = start_farside("socket", "locking");
  if (cells == nullptr || addresses == nullptr || ask == nullptr || socket == nullptr || locking == nullptr) return;
  const std::vector<Contestant> all{{cells.get(), "cells", kCells},
                                    {addresses.get(), "addresses", kAddresses},
                                    {ask.get(), "ask", kAsk},
                                    {socket.get(), "ask", kSockets},
                                    {locking.get(), "ask", kLocking}};
  measure_sizes(all);
  measure_reads(all, "figure 6, 8 keys of 64 B", 64, "reads");
  if (!on_memory()) return;
  measure_reads(all, "figure 7, 8 keys of 1 KB", kLargeBytes, "ycsb-reads");
  measure_ycsb(all);
  measure_threads(all);
  measure_latency(all);
  measure_rows(*cells);
  measure_reclaiming(*cells);
}

void Bench::measure_sizes(std::span<const Contestant> all) {
  report_.continue_table(fmt::format("{}: figure 5, keys of a transaction, {} % reads", fabric_.name, kUsualMix));
  std::vector<std::pair<double, KvRace>> races;
  for (const std::uint64_t keys : kTransactionSizes) {
    if (options_.quick && keys != kUsualKeys) continue;
    const std::string name = fmt::format("{} {} keys", fabric_.name, keys);
    KvQuestion asked = question();
    asked.keys = keys;
    races.emplace_back(static_cast<double>(keys), race(name, all, asked));
    report_.add(races.back().second.throughput(name));
  }
  draw_curves("transactions by their keys", "keys of a transaction", races, "sizes");
}

void Bench::measure_reads(std::span<const Contestant> all, const std::string& table, std::uint64_t value_bytes,
                          const std::string& plot) {
  report_.continue_table(fmt::format("{}: {}, by share of reads", fabric_.name, table));
  std::vector<std::pair<double, KvRace>> races;
  for (const unsigned percent : kReadPercents) {
    if (options_.quick && percent != kReadPercents.back()) continue;
    const std::string name = fmt::format("{} {} {} % reads", fabric_.name, format_bytes(value_bytes), percent);
    KvQuestion asked = question();
    asked.mix = std::to_string(percent);
    asked.value_bytes = value_bytes;
    races.emplace_back(percent, race(name, all, asked));
    report_.add(races.back().second.throughput(name));
  }
  draw_curves(table, "reads, %", races, plot);
  if (on_memory()) compare_schemes(races, table, value_bytes);
}

// What the paper says of its schemes, beside each other.
void Bench::compare_schemes(const std::vector<std::pair<double, KvRace>>& races, const std::string& table,
                            std::uint64_t value_bytes) {
  report_.continue_table(fmt::format("{}: {}, one scheme beside another", fabric_.name, table));
  for (const auto& [percent, race] : races) {
    const bool only_reads = percent == kReadPercents.back();
    const auto want = [&, &race = race, percent = percent](const std::string& ours, const std::string& baseline,
                                                           double ratio) {
      const std::string name = fmt::format("{} {} {} % reads", fabric_.name, format_bytes(value_bytes), percent);
      report_.add(race.ratio(name, {ours, baseline, ratio}));
    };
    want(kAddresses, kAsk, only_reads ? kAddressesOverAsk : 1);
    if (only_reads) {
      want(kAsk, kSockets, kAskOverSockets);
      want(kAddresses, kSockets, kAddressesOverSockets);
    } else if (percent != 0) {
      want(kCells, kAddresses, 1);
    }
  }
}

void Bench::measure_ycsb(std::span<const Contestant> all) {
  report_.continue_table(fmt::format("{}: YCSB, 8 keys of 1 KB, zipfian", fabric_.name));
  for (const char workload : std::string("ABCDEF")) {
    if (options_.quick && workload != 'F') continue;
    KvQuestion asked = question();
    asked.mix = workload;
    asked.value_bytes = kLargeBytes;
    const std::string name = fmt::format("{} YCSB {}", fabric_.name, workload);
    report_.add(race(name, all, asked).throughput(name));
  }
}

void Bench::measure_threads(std::span<const Contestant> all) {
  report_.continue_table(fmt::format("{}: threads of the client, {} % reads", fabric_.name, kUsualMix));
  for (const unsigned threads : {1U, 2U, 4U, 16U}) {
    if (options_.quick && threads != 2) continue;
    KvQuestion asked = question();
    asked.threads = threads;
    const std::string name = fmt::format("{} {} threads", fabric_.name, threads);
    report_.add(race(name, all, asked).throughput(name));
  }
}

void Bench::measure_latency(std::span<const Contestant> all) {
  report_.continue_table(fmt::format("{}: time of a transaction of 8 keys of 64 B", fabric_.name));
  for (const unsigned threads : {1U, 8U}) {
    KvQuestion asked = question();
    asked.mix = "100";
    asked.threads = threads;
    const std::string name = fmt::format("{} read, {} threads", fabric_.name, threads);
    const KvRace reads = race(name, all, asked);
    report_.add(reads.time(name + " p50", &KvFigures::p50_ns));
    report_.add(reads.time(name + " p99", &KvFigures::p99_ns));
    report_.add(reads.time(name + " p99.9", &KvFigures::p999_ns));
    report_.add(reads.time(name + " servers' CPU", &KvFigures::server_ns));
  }
}

void Bench::measure_rows(Contender& mailbox) {
  report_.continue_table(fmt::format("{}: reads of 8 keys of 64 B, by how many keys there are", fabric_.name));
  const std::vector<Contestant> ways{{&mailbox, "cells", kCells}, {&mailbox, "ask", kAsk}};
  for (const std::uint64_t rows : kRows) {
    if (rows > (options_.quick ? kMaxQuickRows : options_.full ? kRows.back() : kMaxRows)) continue;
    KvQuestion asked = question();
    asked.mix = "100";
    asked.rows = rows;
    const std::string name = fmt::format("{} of {} keys", fabric_.name, rows);
    report_.add(race(name, ways, asked).throughput(name));
  }
}

void Bench::measure_reclaiming(Contender& mailbox) {
  const Job never = start_farside("mailbox", "ramp", "3600000");
  if (never == nullptr) return;
  report_.continue_table(fmt::format("{}: writes, versions reclaimed or not", fabric_.name));
  const std::vector<Contestant> both{{&mailbox, "cells", "reclaimed"}, {never.get(), "cells", "never reclaimed"}};
  KvQuestion asked = question();
  asked.mix = "0";
  report_.add(race("reclaiming", both, asked).throughput(fabric_.name + " writes"));
}

void Bench::measure_servers() {
  report_.continue_table(fmt::format("{}: servers, {} % reads", fabric_.name, kUsualMix));
  const Job four = start_farside("mailbox");
  for (const unsigned servers : {1U, 2U, 8U}) {
    if (options_.quick && servers != 2) continue;
    const Job job = start_farside("mailbox", "ramp", "2000", servers);
    if (job == nullptr || four == nullptr) return;
    const std::string name = fmt::format("{} {} servers", fabric_.name, servers);
    const std::vector<Contestant> both{{job.get(), "cells", kCells}, {four.get(), "cells", "of 4 servers"}};
    report_.add(race(name, both, question()).throughput(name));
  }
}

// Redis is one process: beside as many servers as elsewhere, and beside one.
void Bench::measure_against_redis() {
  const Job four = start_farside("mailbox");
  const Job one = start_farside("mailbox", "ramp", "2000", 1);
  const Job redis = start("Redis", {kRedis, {{sibling_program("kv-contender-redis")}}}, report_);
  if (four == nullptr || one == nullptr || redis == nullptr) return;
  report_.continue_table(fmt::format("{}: 8 keys of 1 KB, beside Redis", fabric_.name));
  const std::string of_four = "4 servers";
  const std::string of_one = "1 server";
  const std::vector<Contestant> all{
      {four.get(), "cells", of_four}, {one.get(), "cells", of_one}, {redis.get(), "ask", kRedis}};
  const auto compare_with_redis = [&](const std::string& name, const std::string& mix, double wanted) {
    KvQuestion asked = question();
    asked.mix = mix;
    asked.value_bytes = kLargeBytes;
    const KvRace calls = race(name, all, asked);
    for (const std::string& ours : {of_four, of_one}) {
      report_.add(calls.ratio(fabric_.name + " " + name, {ours, kRedis, wanted}));
    }
  };
  compare_with_redis("get_all and MGET", "100", kReadsOverRedis);
  compare_with_redis("put_all and MSET", "0", 1);
}

// By clients of its protocol, and an example of what is in front of the store.
void Bench::measure_protocol() {
  if (!installed("redis-server"))
    return report_.not_measured("the Redis protocol", "redis-server is missing (install it)");
  if (!std::filesystem::exists(sibling_program("kv-contender-resp")))
    return report_.not_measured("the Redis protocol", "farside was built without hiredis");
  const auto start_server = [&](const std::string& server_or_nodes, const std::string& name) {
    return start("the Redis protocol",
                 {name, {{sibling_program("kv-contender-resp"), server_or_nodes}, fabric_.environment}}, report_);
  };
  const Job four = start_server("4", "farside kv serve, 4 nodes");
  const Job one = start_server("1", "farside kv serve, 1 node");
  const Job redis = start_server("redis", kRedis);
  if (four == nullptr || one == nullptr || redis == nullptr) return;
  const std::uint64_t requests = options_.quick ? 500 : options_.full ? 200'000 : 20'000;
  const auto ask = [](const Job& job, const std::string& question) { return std::stod(job->ask(question)); };
  report_.continue_table(fmt::format("{}: the Redis protocol, 50 clients, 3 B, 10,000 keys", fabric_.name));
  for (const unsigned pipelined : {1U, 16U}) {
    for (const std::string test : {"get", "set", "mset"}) {
      const std::string name = fmt::format("{} {}, {} at once", fabric_.name, test, pipelined);
      const std::string question = fmt::format("{} {} {}", test, pipelined, requests * (pipelined == 1 ? 1 : 4));
      show_progress(name);
      const std::vector<std::function<double()>> askers{[&] { return ask(four, question); },
                                                        [&] { return ask(one, question); },
                                                        [&] { return ask(redis, question); }};
      const auto figures = farside::bench::race<double>(options_.quick ? 1 : options_.repetitions, askers);
      const Series baseline{kRedis, figures[2], 1};
      report_.add(compare(name + ", 4 nodes", "1/s", Better::higher, {"farside kv serve", figures[0]}, {baseline}));
      report_.add(compare(name + ", 1 node", "1/s", Better::higher, {"farside kv serve", figures[1]}, {baseline}));
    }
  }
  if (!std::filesystem::exists(sibling_program("../../bin/example_likes")))
    return report_.not_measured("likes", "the examples were not built");
  report_.continue_table(fmt::format("{}: examples/likes.cc, likes and their counts, 4 threads", fabric_.name));
  const std::vector<std::function<double()>> likes{[&] { return ask(four, "likes"); }};
  report_.add(compare(fabric_.name + " likes", "1/s", Better::higher,
                      {"farside", farside::bench::race<double>(options_.quick ? 1 : options_.repetitions, likes)[0]},
                      {}));
}

void Bench::draw_curves(const std::string& title, const std::string& x,
                        const std::vector<std::pair<double, KvRace>>& races, const std::string& file) const {
  if (options_.plots.empty() || !on_memory()) return;
  std::vector<Curve> curves;
  for (const std::string& name : races.front().second.names()) curves.push_back({name, {}});
  for (const auto& [at, race] : races) {
    const std::vector<double> medians = race.medians();
    for (std::size_t i = 0; i < curves.size(); ++i) curves[i].points.emplace_back(at, medians[i]);
  }
  draw({fabric_.name + ": " + title, {x, "%g", false}, {"transactions a second", "%.0s %c", false}, curves},
       options_.plots / ("kv-" + file + ".svg"));
}

void measure(const Options& options, Report& report) {
  for (const Fabric* fabric : {&direct(), &over_tcp()}) {
    Bench bench(*fabric, options, report);
    bench.measure_transports();
    bench.measure_schemes();
    if (fabric != &direct()) continue;
    bench.measure_against_redis();
    bench.measure_servers();
    bench.measure_protocol();
  }
}

void measure_with_faults(const Options& options, Report& report) {
  for (const Fabric* fabric : {&direct(), &over_tcp()}) measure_faults(*fabric, options, report);
}

}  // namespace
}  // namespace farside::bench

int main(int argc, char** argv) {
  using farside::bench::run_program;
  if (argc > 1 && std::string_view(argv[1]) == "--faults") {
    return run_program(argc - 1, argv + 1, "kv --faults", "a store with two copies while nodes are killed",
                       farside::bench::measure_with_faults);
  }
  return run_program(argc, argv, "kv",
                     "read-atomic transactions beside two-phase locking and Redis; with --faults first, a store with "
                     "two copies while nodes are killed",
                     farside::bench::measure);
}
