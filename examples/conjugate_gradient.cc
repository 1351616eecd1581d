// conjugate_gradient.cc — solves A x = b by conjugate gradients. A is read from a Matrix Market file: real, symmetric,
// positive definite; b is 1 everywhere.
//
//   farside run -n 4 -- build/release/bin/example_conjugate_gradient examples/data/membrane.mtx
//
// Each rank has some rows of A, and the same elements of the vectors. For A p it gathers those elements of p that its
// rows reach: which they are never changes, so it asks for them once.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "farside/arrays/gather.h"
#include "farside/arrays/reduce.h"
#include "farside/base/error.h"

namespace {

using namespace farside;

constexpr double kAccuracy = 1e-10;  // of the residual, relative to b
constexpr int kMaxSteps = 10'000;    // more mean that the matrix is not positive definite, or nearly so

struct Entry {
  std::int64_t row;
  std::int64_t column;
  double value;
};
struct Matrix {
  std::int64_t size = 0;
  std::vector<Entry> entries;
};

Matrix read_matrix(const std::string& path) {
  const auto require = [&](bool is_so, const char* why) {
    if (!is_so) throw UsageError({"read a matrix", path, why, "give a Matrix Market file, coordinate real symmetric"});
  };
  std::ifstream file(path);
  std::string line;
  require(std::getline(file, line).good(), "it has no first line");
  require(line == "%%MatrixMarket matrix coordinate real symmetric", "it is of another kind");
  while (file.peek() == '%') std::getline(file, line);

  Matrix matrix;
  std::int64_t columns = 0;
  std::size_t lines = 0;
  require(!!(file >> matrix.size >> columns >> lines) && matrix.size == columns, "it is not square");
  for (; lines > 0; --lines) {
    Entry entry{};
    require(!!(file >> entry.row >> entry.column >> entry.value), "it ends early, or has an entry that is none");
    const auto [least, most] = std::minmax(--entry.row, --entry.column);
    require(least >= 0 && most < matrix.size, "an entry is outside of the matrix");
    matrix.entries.push_back(entry);
    if (entry.row != entry.column) matrix.entries.push_back({entry.column, entry.row, entry.value});
  }
  return matrix;
}

struct Solution {
  std::vector<double> x;
  int steps = 0;
};

// All ranks together; the result is the same at each of them.
Solution solve_together(team::Team& team, const Matrix& matrix) {
  arrays::World world(team);
  using Vector = arrays::Array<double, 1>;
  Vector x(world, {matrix.size});

  std::vector<Entry> entries;  // of this rank's rows
  std::vector<std::int64_t> columns;
  for (const Entry& entry : matrix.entries) {
    if (entry.row < x.first()[0] || entry.row >= x.last()[0]) continue;
    entries.push_back(entry);
    columns.push_back(entry.column);
  }
  const arrays::Indices reached(world, x.layout(), columns);
  const auto times_matrix = [&](const Vector& p) {
    std::vector<double> elements(entries.size());
    reached.gather(p, std::span(elements));
    Vector product(world, {matrix.size});
    const auto rows = product.local();
    for (std::size_t k = 0; k < entries.size(); ++k) {
      rows[entries[k].row - product.first()[0]] += entries[k].value * elements[k];
    }
    return product;
  };

  Vector residual = x + 1.0;
  Vector direction = residual;
  double square = sum(residual * residual);
  const double enough = kAccuracy * kAccuracy * square;
  int steps = 0;
  for (; square > enough && steps < kMaxSteps; ++steps) {
    const Vector image = times_matrix(direction);
    const double length = square / sum(direction * image);
    x += length * direction;
    residual -= length * image;
    const double next_square = sum(residual * residual);
    direction = residual + next_square / square * direction;
    square = next_square;
  }
  return {gather_all(x), steps};
}

// How far A x is from b, by one process alone.
double residual_alone(const Matrix& matrix, const std::vector<double>& x) {
  std::vector<double> residual(x.size(), 1.0);
  for (const Entry& entry : matrix.entries) residual[entry.row] -= entry.value * x[entry.column];
  double square = 0;
  for (const double element : residual) square += element * element;
  return std::sqrt(square / static_cast<double>(x.size()));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 2)
      throw UsageError({"solve equations with", "the arguments", "they are not one file", "name a Matrix Market file"});
    const auto team = team::join_team();
    const Matrix matrix = read_matrix(argv[1]);
    const Solution solution = solve_together(*team, matrix);
    if (team->rank() != 0) return EXIT_SUCCESS;

    const double residual = residual_alone(matrix, solution.x);
    const bool is_right = residual < 10 * kAccuracy;
    std::printf("%u ranks, %d steps: solved %lld equations, %s by one process alone\n", team->size(), solution.steps,
                static_cast<long long>(matrix.size), is_right ? "found right" : "found wrong");
    return is_right ? EXIT_SUCCESS : EXIT_FAILURE;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
}
