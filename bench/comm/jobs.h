// jobs.h — the jobs that a table of `bench comm` races: ours and Open MPI's, of one number of ranks.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/harness/contender.h"
#include "bench/harness/program.h"
#include "bench/harness/timing_race.h"

namespace farside::bench {

struct Fabric {
  std::string name;
  std::map<std::string, std::string> environment;
};

[[nodiscard]] const Fabric& direct();
[[nodiscard]] const Fabric& over_tcp();

enum class Who { farside, mpi };

/// What is asked of one of the jobs. Those of a job that was not started are left out.
struct Entry {
  Who who;
  std::string operation;
  std::uint64_t amount = 0;
  std::string name = {};  ///< in the report; the job's own unless said otherwise
  std::optional<double> wanted = {};
};

class Jobs {
 public:
  /// Open MPI's on memory alone. Whatever could not be started stands in the report.
  Jobs(const Fabric& fabric, unsigned ranks, const Options& options, Report& report);

  /// Ours was.
  [[nodiscard]] bool started() const { return farside_ != nullptr; }

  [[nodiscard]] const std::string& fabric() const { return fabric_.name; }
  /// As a row of a table is called.
  [[nodiscard]] std::string title(const std::string& what) const;
  /// That all ranks move together without taking the whole time of the benchmark.
  [[nodiscard]] std::uint64_t largest_bytes() const;
  /// More ranks than cores are to be twice as fast as Open MPI's.
  [[nodiscard]] double wanted_beside_mpi() const;

  /// Of a job that was started.
  [[nodiscard]] TimingRace::Turn turn(const Entry& entry) const;
  /// Ours comes first.
  [[nodiscard]] TimingRace race(const std::vector<Entry>& entries) const;
  /// The same question to both.
  [[nodiscard]] TimingRace race(const std::string& operation, std::uint64_t amount = 0,
                                std::optional<double> wanted = {}) const;

 private:
  [[nodiscard]] Contender* job(Who who) const { return who == Who::farside ? farside_.get() : mpi_.get(); }

  const Fabric& fabric_;
  const unsigned ranks_;
  const Options& options_;
  std::unique_ptr<Contender> farside_;
  std::unique_ptr<Contender> mpi_;
};

/// As a contender is asked.
[[nodiscard]] std::string question(const std::string& operation, std::uint64_t amount, const Options& options);

}  // namespace farside::bench
