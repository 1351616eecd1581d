// The loops that a programmer would write by hand: one process, OpenMP's threads.
#include <cstdint>
#include <vector>

#include "bench/harness/work.h"

namespace farside::bench {
namespace {

using Values = std::vector<double>;

struct Operands {
  explicit Operands(std::uint64_t count) : a(count, 1.0), b(count, 2.0), c(count, 3.0) {}
  Values a;
  Values b;
  Values c;
};

void add(Values& a, const Values& b, const Values& c) {
  const auto count = static_cast<std::int64_t>(a.size());
  double* const into = a.data();
  const double* const left = b.data();
  const double* const right = c.data();
#pragma omp parallel for simd schedule(static)
  for (std::int64_t i = 0; i < count; ++i) into[i] = 0.25 * (left[i] + right[i]);
}

double sum(const Values& a) {
  const auto count = static_cast<std::int64_t>(a.size());
  const double* const values = a.data();
  double total = 0;
#pragma omp parallel for simd schedule(static) reduction(+ : total)
  for (std::int64_t i = 0; i < count; ++i) total += values[i];
  return total;
}

void run() {
  Operands operands(0);
  const auto with = [&operands](std::uint64_t count) -> Operands& {
    if (operands.a.size() != count) operands = Operands(count);
    return operands;
  };
  volatile double result = 0;  // so that sums are not left out
  Work work;
  work.alone("expression", [&](std::uint64_t count, std::uint64_t rounds) {
    Operands& on = with(count);
    for (; rounds != 0; --rounds) add(on.a, on.b, on.c);
  });
  work.alone("sum", [&](std::uint64_t count, std::uint64_t rounds) {
    Operands& on = with(count);
    for (; rounds != 0; --rounds) result = sum(on.a);
  });
  work.answer_questions([](const Command& /*command*/) {});
}

}  // namespace
}  // namespace farside::bench

int main() {
  farside::bench::run();
  return 0;
}
