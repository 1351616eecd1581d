// jobs.h — the jobs that a benchmark races: ours and those of others, all of one number of ranks.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/harness/contender.h"
#include "bench/harness/entrant.h"
#include "bench/harness/program.h"
#include "bench/harness/timing_race.h"

namespace farside::bench {

enum class Who { farside, mpi, global_arrays };

/// What is asked of one of the jobs. Those of a job that was not started are left out.
struct Entry {
  Who who;
  std::string operation;
  std::uint64_t amount = 0;
  std::string name = {};  ///< in the report; the job's own unless said otherwise
  std::optional<double> wanted = {};
};

/// The baselines that farside is raced against, on memory alone, and what is set in their environment.
struct Others {
  std::vector<Who> who;
  std::map<std::string, std::string> environment = {};
};

class Jobs {
 public:
  /// Of the contenders of `benchmark`. Whatever could not be started stands in the report.
  Jobs(const std::string& benchmark, const Fabric& fabric, unsigned ranks, const Others& others, const Options& options,
       Report& report);

  /// Ours was.
  [[nodiscard]] bool started() const { return started_.contains(Who::farside); }

  [[nodiscard]] const std::string& fabric() const { return fabric_.name; }
  [[nodiscard]] bool on_memory() const { return &fabric_ == &direct(); }
  [[nodiscard]] unsigned ranks() const { return ranks_; }
  /// As a row of a table is called.
  [[nodiscard]] std::string title(const std::string& what) const;

  /// Of a job that was started.
  [[nodiscard]] TimingRace::Turn turn(const Entry& entry) const;
  /// Ours comes first.
  [[nodiscard]] TimingRace race(const std::vector<Entry>& entries) const;
  /// The same question to all.
  [[nodiscard]] TimingRace race(const std::string& operation, std::uint64_t amount = 0,
                                std::optional<double> wanted = {}) const;

 private:
  const Fabric& fabric_;
  const unsigned ranks_;
  const Options& options_;
  std::map<Who, std::unique_ptr<Contender>> started_;
};

}  // namespace farside::bench
