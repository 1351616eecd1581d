// breadth_first_search.cc — how many steps it takes from one vertex of a graph to the others.
//
//   farside run -n 4 -- build/release/bin/example_breadth_first_search examples/data/divisors.txt 1
//
// The file has an edge in each line: two numbers of vertices. The graph lies in global arrays, as compressed rows. Each
// rank has a part of the frontier: those vertices that it was the first to reach, by compare_swap on their level. It
// reads their rows wherever they are, and no other rank takes part.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <queue>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "farside/gas/global_array.h"

namespace {

using namespace farside;

using Vertex = std::uint64_t;
using Level = std::uint64_t;
using Edge = std::pair<Vertex, Vertex>;

constexpr Vertex kMaxVertices = 1U << 24U;  // there is a row for each number up to the largest
constexpr Level kUnseen = ~Level{0};

// The neighbours of vertex v are neighbours[starts[v]] to neighbours[starts[v + 1] - 1].
struct Rows {
  std::vector<std::uint64_t> starts;
  std::vector<Vertex> neighbours;

  [[nodiscard]] Vertex vertices() const { return starts.size() - 1; }
};

std::vector<Edge> read_edges(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw UsageError({"read a graph from", path, "it cannot be opened", "name a file of edges"});
  std::vector<Edge> edges;
  std::string line;
  for (std::size_t number = 1; std::getline(file, line); ++number) {
    const auto refuse = [&](const std::string& why) {
      throw UsageError({"read line " + std::to_string(number) + " of", path, why, "give two numbers of vertices"});
    };
    if (line.empty() || line[0] == '#') continue;
    std::istringstream numbers(line);
    auto& [from, to] = edges.emplace_back();
    if (!(numbers >> from >> to) || !(numbers >> std::ws).eof()) refuse("it is not an edge");
    if (std::max(from, to) >= kMaxVertices) refuse("there are no vertices above " + std::to_string(kMaxVertices - 1));
  }
  return edges;
}

Rows rows_of(const std::vector<Edge>& edges) {
  Vertex vertices = 0;
  for (const auto& [from, to] : edges) vertices = std::max({vertices, from + 1, to + 1});
  Rows rows{std::vector<std::uint64_t>(vertices + 1), std::vector<Vertex>(2 * edges.size())};
  for (const auto& [from, to] : edges) {
    ++rows.starts[from + 1];
    ++rows.starts[to + 1];
  }
  for (Vertex v = 0; v < vertices; ++v) rows.starts[v + 1] += rows.starts[v];
  std::vector<std::uint64_t> next = rows.starts;
  for (const auto& [from, to] : edges) {
    rows.neighbours[next[from]++] = to;
    rows.neighbours[next[to]++] = from;
  }
  return rows;
}

struct Search {
  std::vector<Level> levels;
  std::array<std::uint64_t, 4> traffic{};  // of all ranks: operations, bytes; and of these the remote ones
};

void add_traffic(gas::PageAccess& pages, Search& search) {
  for (const gas::PageTraffic& page : pages.traffic()) {
    search.traffic[0] += page.operations;
    search.traffic[1] += page.bytes;
    search.traffic[2] += page.remote_operations;
    search.traffic[3] += page.remote_bytes;
  }
}

// All ranks together; the result is the same at each of them.
Search search_together(team::Team& team, const Rows& rows, Vertex from) {
  const auto deadline = [&team] { return team.fabric().in(std::chrono::seconds(60)); };
  comm::Comm comm(team);
  comm::Collectives together(comm);
  const gas::GlobalArrayOptions options{.page_bytes = 1024, .distribution = gas::blocked()};
  gas::GlobalArray<std::uint64_t> starts(comm, rows.starts.size(), options);
  gas::GlobalArray<Vertex> neighbours(comm, rows.neighbours.size(), options);
  gas::GlobalArray<Level> levels(comm, rows.vertices(), options);
  Channel& channel = levels.pages().channel();
  const auto expect = gas::GlobalArray<Level>::expect;

  // Each rank fills the pages that are here.
  const auto fill = [](auto& array, const auto& value_of) {
    array.for_each_here([&](std::uint64_t first, std::span<std::uint64_t> values) {
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = value_of(first + i);
    });
  };
  fill(starts, [&rows](std::uint64_t i) { return rows.starts[i]; });
  fill(neighbours, [&rows](std::uint64_t i) { return rows.neighbours[i]; });
  fill(levels, [from](Vertex v) { return v == from ? Level{0} : kUnseen; });

  std::vector<Vertex> frontier;
  if (team.rank() == 0) frontier.push_back(from);
  for (Level level = 1;; ++level) {
    // Finds out whether any rank has a frontier. No rank goes on before all ranks are here.
    std::uint64_t reached_last = frontier.size();
    expect(together.all_reduce(channel, std::span(&reached_last, 1), deadline()), "meet");
    if (reached_last == 0) break;

    std::vector<std::array<std::uint64_t, 2>> bounds(frontier.size());
    for (std::size_t i = 0; i < frontier.size(); ++i) starts.begin_get(frontier[i], bounds[i]);
    expect(starts.finish(), "get where rows are");

    std::uint64_t count = 0;
    for (const auto& [begin, end] : bounds) count += end - begin;
    std::vector<Vertex> reached(count);
    std::span<Vertex> rest(reached);
    for (const auto& [begin, end] : bounds) {
      neighbours.begin_get(begin, rest.first(end - begin));
      rest = rest.subspan(end - begin);
    }
    expect(neighbours.finish(), "get rows");

    std::vector<Level> seen(reached.size());
    expect(levels.gather(reached, seen), "get levels");
    frontier.clear();
    for (std::size_t i = 0; i < reached.size(); ++i) {
      if (seen[i] != kUnseen) continue;  // most are, and a get is cheaper
      const Result<Level, comm::Status> old = levels.compare_swap(reached[i], kUnseen, level);
      expect(old.status, "claim a vertex");
      if (old.value == kUnseen) frontier.push_back(reached[i]);
    }
  }

  Search search{.levels = std::vector<Level>(levels.size())};
  for (gas::PageAccess* const pages : {&starts.pages(), &neighbours.pages(), &levels.pages()})
    add_traffic(*pages, search);
  expect(levels.get(0, search.levels), "get all levels");
  expect(together.all_reduce(channel, std::span<std::uint64_t>(search.traffic), deadline()), "add up the traffic");
  expect(comm.wait(channel, comm.issued(), deadline()), "end");
  expect({team.barrier(deadline())}, "end");  // no rank frees what another rank may be using
  return search;
}

// The same by one process, to compare with.
std::vector<Level> search_alone(const Rows& rows, Vertex from) {
  std::vector<Level> levels(rows.vertices(), kUnseen);
  levels[from] = 0;
  for (std::queue<Vertex> frontier({from}); !frontier.empty(); frontier.pop()) {
    const Vertex v = frontier.front();
    for (std::uint64_t i = rows.starts[v]; i < rows.starts[v + 1]; ++i) {
      const Vertex neighbour = rows.neighbours[i];
      if (levels[neighbour] != kUnseen) continue;
      levels[neighbour] = levels[v] + 1;
      frontier.push(neighbour);
    }
  }
  return levels;
}

// The number of a vertex; kUnseen for what is none.
Vertex vertex_of(const std::string& text) {
  const bool is_number = !text.empty() && text.size() < 19 && text.find_first_not_of("0123456789") == std::string::npos;
  return is_number ? std::stoull(text) : kUnseen;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 3) throw UsageError({"search with", "the arguments", "they are not FILE VERTEX", "give both"});
    const auto team = team::join_team();
    const Rows rows = rows_of(read_edges(argv[1]));
    const Vertex from = vertex_of(argv[2]);
    if (from >= rows.vertices()) {
      throw UsageError({"search from", argv[2], "it is no vertex of " + std::string(argv[1]),
                        "name one below " + std::to_string(rows.vertices())});
    }
    const Search search = search_together(*team, rows, from);
    if (team->rank() != 0) return EXIT_SUCCESS;

    const bool is_right = search.levels == search_alone(rows, from);
    std::printf("%u ranks: levels of %zu vertices, %s by one process alone\n", team->size(), search.levels.size(),
                is_right ? "found right" : "found wrong");
    std::size_t left = search.levels.size();
    for (Level level = 0;; ++level) {
      const auto count = static_cast<std::size_t>(std::ranges::count(search.levels, level));
      if (count == 0) break;
      std::printf("level %llu: %zu\n", static_cast<unsigned long long>(level), count);
      left -= count;
    }
    const auto& [operations, bytes, remote_operations, remote_bytes] = search.traffic;
    std::printf("not reached: %zu\n%llu operations of %llu bytes; remote: %llu of %llu bytes\n", left,
                static_cast<unsigned long long>(operations), static_cast<unsigned long long>(bytes),
                static_cast<unsigned long long>(remote_operations), static_cast<unsigned long long>(remote_bytes));
    return is_right ? EXIT_SUCCESS : EXIT_FAILURE;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
}
