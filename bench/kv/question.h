// question.h — what a contender of `bench kv` is asked, and what it answers: a line each.
#pragma once

#include <cstdint>
#include <string>

namespace farside::bench {

/// Transactions of threads that know nothing of each other, for about `budget_ms`.
struct KvQuestion {
  std::string way = "cells";  ///< how a contender reads that has several ways
  std::string mix = "95";     ///< reads in a hundred, uniformly; or the letter of a workload of YCSB
  std::uint64_t keys = 8;     ///< of a transaction
  std::uint64_t value_bytes = 64;
  std::uint64_t rows = 1000;
  unsigned threads = 8;
  std::int64_t budget_ms = 100;

  [[nodiscard]] std::string to_line() const;
  /// Throws std::runtime_error.
  static KvQuestion from_line(const std::string& line);
};

struct KvFigures {
  double per_second = 0;  ///< transactions, of all threads
  double p50_ns = 0;      ///< of a transaction's time
  double p99_ns = 0;
  double p999_ns = 0;
  double server_ns = 0;  ///< a transaction's share of what the servers' processors were busy

  [[nodiscard]] std::string to_line() const;
  /// Throws std::runtime_error.
  static KvFigures from_line(const std::string& line);
};

}  // namespace farside::bench
