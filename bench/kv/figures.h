// figures.h — one question put to several contestants in turns, and what the report makes of it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/harness/contender.h"
#include "bench/harness/report.h"
#include "bench/kv/question.h"

namespace farside::bench {

struct Contestant {
  Contender* contender;
  std::string way;  ///< of KvQuestion
  std::string name;
};

class KvRace {
 public:
  /// How many times better than another of the contestants one is to be.
  struct Wanted {
    std::string ours;
    std::string baseline;
    std::optional<double> ratio = {};
  };

  KvRace(std::span<const Contestant> contestants, const KvQuestion& question, unsigned repetitions);

  /// Transactions a second, of the first beside the others.
  [[nodiscard]] Result throughput(const std::string& name) const;
  /// Transactions a second, of one beside another.
  [[nodiscard]] Result ratio(const std::string& name, const Wanted& wanted) const;
  /// Another figure, in nanoseconds, of the first beside the others.
  [[nodiscard]] Result time(const std::string& name, double KvFigures::*figure) const;

  [[nodiscard]] const std::vector<std::string>& names() const noexcept { return names_; }
  /// Transactions a second, of each.
  [[nodiscard]] std::vector<double> medians() const;

 private:
  [[nodiscard]] Series series(std::size_t contestant, double KvFigures::*figure) const;
  [[nodiscard]] std::size_t place_of(const std::string& name) const;
  [[nodiscard]] std::vector<Series> others(double KvFigures::*figure) const;

  std::vector<std::string> names_;
  std::vector<std::vector<KvFigures>> figures_;  // by contestant, by repetition
};

}  // namespace farside::bench
