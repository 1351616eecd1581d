// What the clients of `bench kv` ask for.
#include "bench/kv/workload.h"

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace farside::bench {
namespace {

constexpr std::uint64_t kRows = 100;

// A transaction that names a key twice is refused by some stores.
TEST(KvWorkload, NamesEachRowOfATransactionOnce) {
  for (const char name : std::string("ABCDEF")) {
    Workload workload(ycsb(name), kRows, 0, 8);
    std::vector<std::uint64_t> rows;
    for (int i = 0; i < 1000; ++i) {
      workload.rows_of(workload.operation(), 32, rows);
      EXPECT_EQ(std::set<std::uint64_t>(rows.begin(), rows.end()).size(), 32U);
    }
  }
}

// What is read is there: the rows at the beginning, or this client's own inserts before.
TEST(KvWorkload, ReadsRowsThatAreThere) {
  constexpr std::uint64_t kClient = 3;
  Workload workload(ycsb('D'), kRows, kClient, 8);
  std::set<std::uint64_t> there;
  for (std::uint64_t row = 0; row < kRows; ++row) there.insert(row);
  std::vector<std::uint64_t> rows;
  bool read_inserted = false;
  for (int i = 0; i < 2000; ++i) {
    const Operation operation = workload.operation();
    workload.rows_of(operation, 4, rows);
    for (const std::uint64_t row : rows) {
      if (operation == Operation::insert) {
        EXPECT_TRUE(there.insert(row).second) << "inserted twice";
      } else {
        ASSERT_TRUE(there.contains(row));
        read_inserted |= row >= kRows;
      }
    }
  }
  EXPECT_TRUE(read_inserted);
}

TEST(KvWorkload, KeepsTheSharesOfItsMix) {
  constexpr int kMany = 20'000;
  std::map<Operation, int> drawn;
  Workload workload(reads_of(75), kRows, 0, 1);
  for (int i = 0; i < kMany; ++i) ++drawn[workload.operation()];
  EXPECT_NEAR(drawn[Operation::read], 0.75 * kMany, 0.02 * kMany);
  EXPECT_NEAR(drawn[Operation::update], 0.25 * kMany, 0.02 * kMany);
}

// Rank i with a probability in proportion to 1 / (i + 1)^0.99.
TEST(KvWorkload, DrawsAFewRowsMuchMoreOften) {
  constexpr int kMany = 200'000;
  const Zipfian zipfian(kRows);
  Dice dice(1);
  std::vector<double> drawn(kRows);
  for (int i = 0; i < kMany; ++i) ++drawn.at(zipfian.draw(dice));
  double harmonic = 0;
  for (std::uint64_t i = 1; i <= kRows; ++i) harmonic += 1 / std::pow(static_cast<double>(i), 0.99);
  EXPECT_NEAR(drawn[0] / kMany, 1 / harmonic, 0.01);
  EXPECT_NEAR(drawn[1] / kMany, 0.5 / harmonic, 0.01);
  EXPECT_LT(drawn[kRows - 1] / kMany, 0.01);
}

}  // namespace
}  // namespace farside::bench
