// k_means.cc — the centres of groups in the rows of a CSV file, by Lloyd's method.
//
//   farside run -n 4 -- build/release/bin/example_k_means examples/data/groups.csv 3
//
// A column of the file is an array. What is written about whole columns below is computed by each rank for its rows;
// only sums are exchanged.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "farside/arrays/reduce.h"
#include "farside/base/error.h"

namespace {

using namespace farside;

constexpr int kMaxRounds = 100;
using Columns = std::vector<std::vector<double>>;
using Centres = Columns;  // of each group, by column

// Numbers with commas between them; the first line names the columns.
Columns read_csv(const std::string& path) {
  const auto refuse = [&](std::size_t line, const std::string& why) {
    throw UsageError({"read line " + std::to_string(line) + " of", path, why, "give numbers under a line of names"});
  };
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) refuse(1, "it cannot be read");
  Columns columns(1 + std::count(line.begin(), line.end(), ','));
  for (std::size_t number = 2; std::getline(file, line); ++number) {
    std::istringstream fields(line + ',');
    for (auto& column : columns) {
      char comma = 0;
      if (!(fields >> column.emplace_back() >> comma) || comma != ',') refuse(number, "a field is no number");
    }
    if (fields.peek() != EOF) refuse(number, "there are more fields than names");
  }
  return columns;
}

// The first rows are where the search for centres begins.
Centres first_rows(const Columns& columns, std::size_t groups) {
  Centres centres(groups);
  for (std::size_t group = 0; group < groups; ++group) {
    for (const auto& column : columns) centres[group].push_back(column[group]);
  }
  return centres;
}

// All ranks together; the result is the same at each of them.
Centres search_together(team::Team& team, const Columns& table, std::size_t groups) {
  arrays::World world(team);
  using Column = arrays::Array<double, 1>;
  const arrays::Extents<1> rows = {static_cast<std::int64_t>(table[0].size())};
  std::vector<Column> columns;
  for (const auto& column : table) columns.push_back(arrays::from_all<double>(world, rows, column));

  Centres centres = first_rows(table, groups);
  for (int round = 0; round < kMaxRounds; ++round) {
    Column nearest(world, rows);
    Column least = nearest + HUGE_VAL;
    for (std::size_t group = 0; group < groups; ++group) {
      Column distance(world, rows);
      for (std::size_t axis = 0; axis < columns.size(); ++axis) {
        const auto away = columns[axis] - centres[group][axis];
        distance += away * away;
      }
      nearest = where(distance < least, static_cast<double>(group), nearest);
      least = min(distance, least);
    }
    const Centres before = centres;
    for (std::size_t group = 0; group < groups; ++group) {
      const auto is_in_it = nearest == static_cast<double>(group);
      const auto members = static_cast<double>(count(is_in_it));
      for (std::size_t axis = 0; axis < columns.size() && members > 0; ++axis) {
        centres[group][axis] = sum(where(is_in_it, columns[axis], 0.0)) / members;
      }
    }
    if (centres == before) break;
  }
  return centres;
}
// The same by one process, to compare with.
Centres search_alone(const Columns& table, std::size_t groups) {
  Centres centres = first_rows(table, groups);
  for (int round = 0; round < kMaxRounds; ++round) {
    Centres sums(groups, std::vector<double>(table.size()));
    std::vector<double> members(groups);
    for (std::size_t row = 0; row < table[0].size(); ++row) {
      std::size_t nearest = 0;
      double least = HUGE_VAL;
      for (std::size_t group = 0; group < groups; ++group) {
        double distance = 0;
        for (std::size_t axis = 0; axis < table.size(); ++axis) {
          distance += std::pow(table[axis][row] - centres[group][axis], 2);
        }
        if (distance < least) nearest = group;
        least = std::min(distance, least);
      }
      ++members[nearest];
      for (std::size_t axis = 0; axis < table.size(); ++axis) sums[nearest][axis] += table[axis][row];
    }
    const Centres before = centres;
    for (std::size_t group = 0; group < groups; ++group) {
      for (std::size_t axis = 0; axis < table.size() && members[group] > 0; ++axis) {
        centres[group][axis] = sums[group][axis] / members[group];
      }
    }
    if (centres == before) break;
  }
  return centres;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::size_t groups = argc == 3 ? std::strtoul(argv[2], nullptr, 10) : 0;
    if (groups == 0) throw UsageError({"find groups with", "the arguments", "they are not FILE GROUPS", "give both"});
    const auto team = team::join_team();
    const Columns table = read_csv(argv[1]);
    if (table[0].size() < groups) throw UsageError({"find groups in", argv[1], "it has fewer rows", "ask for fewer"});
    const Centres centres = search_together(*team, table, groups);
    if (team->rank() != 0) return EXIT_SUCCESS;
    const Centres expected = search_alone(table, groups);
    double difference = 0;  // sums are rounded in another order
    for (std::size_t group = 0; group < groups; ++group) {
      std::printf("group %zu:", group + 1);
      for (std::size_t axis = 0; axis < table.size(); ++axis) {
        std::printf(" %.4f", centres[group][axis]);
        difference = std::fmax(difference, std::fabs(centres[group][axis] - expected[group][axis]));
      }
      std::printf("\n");
    }
    std::printf("%u ranks: the same as one process alone to 1e-9: %s\n", team->size(),
                difference < 1e-9 ? "yes" : "no");
    return difference < 1e-9 ? EXIT_SUCCESS : EXIT_FAILURE;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
}
