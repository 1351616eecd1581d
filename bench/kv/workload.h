// workload.h — what the clients of a key-value benchmark ask for: the Yahoo! Cloud Serving Benchmark's workloads
// (Cooper et al., SoCC 2010), own implementation, with a size of transactions as in Bailis et al. (SIGMOD 2014, section
// 5).
//
// An operation is drawn once for each transaction; all its keys are treated alike.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

namespace farside::bench {

enum class KeyDistribution {
  uniform,
  zipfian,  ///< some keys are much more popular than others; which, is scattered over all
  latest,   ///< those that were inserted last
};

/// Shares of the operations; together 1.
struct Mix {
  double read = 1;
  double update = 0;
  double insert = 0;
  double scan = 0;
  double read_modify_write = 0;
  KeyDistribution keys = KeyDistribution::uniform;
};

/// Workload A to F of YCSB.
[[nodiscard]] Mix ycsb(char name);
/// So many transactions in a hundred read, the others write; keys are drawn uniformly.
[[nodiscard]] Mix reads_of(unsigned percent);

using Dice = std::mt19937_64;

/// Ranks 0, 1, ... of which rank i comes up with a probability in proportion to 1 / (i + 1)^0.99 (Gray et al., SIGMOD
/// 1994, "Quickly generating billion-record synthetic databases").
class Zipfian {
 public:
  explicit Zipfian(std::uint64_t ranks);
  [[nodiscard]] std::uint64_t draw(Dice& dice) const;

 private:
  static constexpr double kTheta = 0.99;

  std::uint64_t ranks_;
  double zeta_;
  double eta_;
};

enum class Operation { read, update, insert, scan, read_modify_write };

/// One client's questions.
class Workload {
 public:
  /// `rows` are there at the beginning. `client` of `clients`: each inserts rows of its own.
  Workload(const Mix& mix, std::uint64_t rows, std::uint64_t client, std::uint64_t clients);

  [[nodiscard]] Operation operation();
  /// `count` different rows that are there, of a scan one after the other; of `insert` new ones.
  void rows_of(Operation operation, std::size_t count, std::vector<std::uint64_t>& rows);

 private:
  [[nodiscard]] std::uint64_t existing_row();

  Mix mix_;
  std::uint64_t rows_;
  std::uint64_t next_insert_;
  std::uint64_t clients_;
  Dice dice_;
  std::optional<Zipfian> zipfian_;  ///< unless keys are drawn uniformly
};

using RowKey = std::array<char, 16>;

/// Scattered. Tables differ in their keys.
[[nodiscard]] RowKey key_of_row(std::uint64_t table, std::uint64_t row);

}  // namespace farside::bench
