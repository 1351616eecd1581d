// farside bench cache: an unmodified program's reads out of pooled memory, beside the kernel's page cache.
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "farside/base/error.h"
#include "farside/base/units.h"

#include "bench/harness/pool.h"
#include "bench/harness/program.h"
#include "bench/harness/race.h"
#include "bench/harness/timing_race.h"

namespace farside::bench {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr const char* kReader = "cache-contender-reader";
constexpr std::uint64_t kSmallestCache = 16 * kMiB;
constexpr unsigned kScanRepetitions = 3;  // each starts a pool anew and moves up to 16 GiB

Contender::Program plain_reader() { return {{sibling_program(kReader)}}; }

/// In large pages, where there are any: the kernel's own copies go through such.
Contender::Program memcpy_reader() {
  return {{sibling_program(kReader), "memcpy"}, {{"GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"}}};
}

std::map<std::string, std::string> tcp() {
  return {{"FARSIDE_FABRIC", "ucx"}, {"UCX_TLS", "tcp"}, {"UCX_NET_DEVICES", "lo"}};
}

std::string cache(std::uint64_t bytes, unsigned groups = 1) {
  return fmt::format("--groups {} --cache {}", groups, bytes);
}

/// Hits in the program's own node, the same reads out of the page cache, and as mere copies: of a file that fits into a
/// core's own caches, where the way to the bytes counts, and of one that does not, where memory does.
void measure_own_hits(std::uint64_t bytes, const Options& options, Report& report) {
  const Folder folder;
  const std::string file = folder.make_file("warm", bytes);
  let_files_age();
  const Pool pool({.roles = cache(2 * std::max(bytes, kSmallestCache))});
  std::vector<std::unique_ptr<Contender>> contenders;
  contenders.push_back(std::make_unique<Contender>("farside", pool.exec(0, folder.path(), kReader)));
  contenders.push_back(std::make_unique<Contender>("page cache", plain_reader()));
  contenders.push_back(std::make_unique<Contender>("memcpy", memcpy_reader()));
  for (const auto& contender : contenders) static_cast<void>(contender->ask("scan " + file + " 1048576"));

  struct Case {
    const char* call;
    std::uint64_t bytes;
    double wanted;
  };
  for (const auto& [call, size, wanted] :
       {Case{"pread", 4096, 1.5}, {"read", 4096, 1}, {"pread", kMiB, 1}, {"read", kMiB, 1}}) {
    const std::string name = fmt::format("own node {} {} of {}", call, format_bytes(size), format_bytes(bytes));
    show_progress(name);
    const TimingRace race(contenders, fmt::format("{} {} {} {}", call, file, size, options.budget().count()),
                          options.repetitions);
    report.add(race.p50(name, {wanted}));
    if (race.has_p99()) report.add(race.p99(name));
    report.add(race.bandwidth(name, size, {wanted}));
    report.note_clock_share(race.clock_share());
  }
}

/// The first read on a node of what another node has; each repetition takes a file of its own.
void measure_peer_hits(const std::string& fabric, const std::map<std::string, std::string>& environment,
                       const Options& options, Report& report) {
  const std::string name = "peer over " + fabric + ", first read of 1 MiB";
  show_progress(name);
  const std::uint64_t bytes = (options.quick ? 8 : 64) * kMiB;
  const Folder folder;
  std::vector<std::string> files;
  for (unsigned i = 0; i < options.repetitions; ++i) files.push_back(folder.make_file(std::to_string(i), bytes));
  let_files_age();
  const Pool pool({.nodes = 2, .roles = cache(bytes * (files.size() + 1)), .environment = environment});
  Contender owner("the node that has it", pool.exec(0, folder.path(), kReader));
  Contender ours("farside", pool.exec(1, folder.path(), kReader));
  Contender plain("page cache", plain_reader());
  for (const std::string& file : files) static_cast<void>(owner.ask("scan " + file + " 1048576"));

  const auto reads_each_once_by = [&files](Contender& reader) {
    return [&reader, &files, turn = std::size_t{0}]() mutable {
      return Timing::from_line(reader.ask("first " + files[turn++] + " 1048576"));
    };
  };
  const std::vector<std::function<Timing()>> turns{reads_each_once_by(ours), reads_each_once_by(plain)};
  const auto timings = race<Timing>(options.repetitions, turns);
  Series own{"farside", {}};
  Series baseline{"page cache", {}};
  for (const Timing& timing : timings[0]) own.repetitions.push_back(timing.p50_ns);
  for (const Timing& timing : timings[1]) baseline.repetitions.push_back(timing.p50_ns);
  report.add(compare(name + " p50", "ns", Better::lower, own, {baseline}));
}

/// A program that reads nothing there pays only for its start.
void measure_starts(const Options& options, Report& report) {
  show_progress("start of a program");
  const Folder folder;
  const Pool pool({.roles = cache(kSmallestCache)});
  std::vector<std::unique_ptr<Contender>> contenders;
  contenders.push_back(std::make_unique<Contender>("farside", pool.exec(0, folder.path(), kReader)));
  contenders.push_back(std::make_unique<Contender>("plain", plain_reader()));
  const TimingRace race(contenders, fmt::format("start /bin/true {}", options.quick ? 10 : 200), options.repetitions);
  report.add(race.p50("start of a program that reads nothing"));
}

struct Scan {
  double asked;            ///< bytes asked of the file system, over the file's bytes
  double gigabytes_per_s;  ///< of all readers together
};

/// All readers go through the file from its start at once.
Scan scan_together(std::vector<std::unique_ptr<Contender>>& readers, const std::string& file, std::uint64_t bytes,
                   const std::function<std::uint64_t()>& bytes_of_nodes) {
  const std::uint64_t before = bytes_of_nodes();
  const auto start = std::chrono::steady_clock::now();
  for (const auto& reader : readers) reader->put("scan " + file + " 1048576");
  std::uint64_t by_readers = 0;
  for (const auto& reader : readers) by_readers += std::stoull(reader->answer());
  const Nanoseconds elapsed = std::chrono::steady_clock::now() - start;
  const auto asked = static_cast<double>(bytes_of_nodes() - before + by_readers);
  const auto unique = static_cast<double>(bytes);
  return {asked / unique, unique * static_cast<double>(readers.size()) / elapsed.count()};
}

/// `nodes` programs, each on its own node, read one file; beside as many plain programs.
void measure_scan(unsigned nodes, unsigned groups, const std::string& file, std::uint64_t bytes, const Folder& folder,
                  const Options& options, Report& report) {
  const std::string name = fmt::format("{} node{}, {} group{}, one file of {}", nodes, nodes == 1 ? "" : "s", groups,
                                       groups == 1 ? "" : "s", format_bytes(bytes));
  show_progress(name);
  const auto start_readers = [&](auto&& program) {
    std::vector<std::unique_ptr<Contender>> readers;
    for (unsigned node = 0; node < nodes; ++node)
      readers.push_back(std::make_unique<Contender>("reader", program(node)));
    return readers;
  };
  const std::vector<std::function<Scan()>> turns{
      [&] {
        const Pool pool({.nodes = nodes, .roles = cache(bytes + bytes / 8, groups)});
        auto readers = start_readers([&](unsigned node) { return pool.exec(node, folder.path(), kReader); });
        return scan_together(readers, file, bytes, [&] { return pool.bytes_from_system_calls(); });
      },
      [&] {
        auto readers = start_readers([](unsigned) { return plain_reader(); });
        return scan_together(readers, file, bytes, [] { return std::uint64_t{0}; });
      }};
  const auto scans = race<Scan>(std::min(options.repetitions, kScanRepetitions), turns);
  Series asked{"farside", {}};
  Series asked_plainly{"plain reads", {}};
  Series speed{"farside", {}};
  Series plain_speed{"plain reads", {}};
  for (const Scan& scan : scans[0])
    asked.repetitions.push_back(scan.asked), speed.repetitions.push_back(scan.gigabytes_per_s);
  for (const Scan& scan : scans[1])
    asked_plainly.repetitions.push_back(scan.asked), plain_speed.repetitions.push_back(scan.gigabytes_per_s);
  asked_plainly.wanted = static_cast<double>(nodes) / groups;
  report.add(compare(name + ": asked of the file system", "times", Better::lower, asked, {asked_plainly}));
  report.add(compare(name + ": bandwidth of all", "GB/s", Better::higher, speed, {plain_speed}));
}

void measure_scans(const Options& options, Report& report) {
  const std::uint64_t bytes = (options.quick ? 16 : 1024) * kMiB;
  const Folder folder;
  const std::string file = folder.make_file("shared", bytes);
  let_files_age();
  const std::vector<unsigned> all_nodes = options.quick ? std::vector<unsigned>{2} : std::vector<unsigned>{1, 2, 4, 8};
  for (const unsigned groups : {1U, 2U, 4U}) {
    for (const unsigned nodes : all_nodes) {
      if (groups <= nodes) measure_scan(nodes, groups, file, bytes, folder, options, report);
    }
  }
}

/// One part of the benchmark; what fails in it is said and does not keep the others from being measured.
void attempt(const std::string& part, Report& report, const std::function<void()>& measure) {
  try {
    measure();
  } catch (const Error& error) {
    report.not_measured(part, error.what());
  }
}

void measure(const Options& options, Report& report) {
  for (const std::uint64_t bytes : {kMiB, (options.quick ? 8 : 64) * kMiB}) {
    attempt("hits in the own node", report, [&] { measure_own_hits(bytes, options, report); });
  }
  attempt("hits in a peer, direct", report, [&] { measure_peer_hits("direct", {}, options, report); });
  attempt("hits in a peer, TCP", report, [&] { measure_peer_hits("TCP", tcp(), options, report); });
  attempt("starts of programs", report, [&] { measure_starts(options, report); });
  attempt("nodes that read one file", report, [&] { measure_scans(options, report); });
}

}  // namespace
}  // namespace farside::bench

int main(int argc, char** argv) {
  return farside::bench::run_program(argc, argv, "cache", "an unmodified program's reads beside the page cache",
                                     farside::bench::measure);
}
