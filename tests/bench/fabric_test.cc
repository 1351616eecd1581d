// `farside bench fabric` as a whole, quick.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace farside::bench {
namespace {

/// Runs the benchmark with `path` as PATH and returns the JSON it wrote.
nlohmann::json run(const std::string& path) {
  const auto folder = std::filesystem::path(testing::TempDir());
  const std::filesystem::path json = folder / ("bench-fabric-" + std::to_string(::getpid()) + ".json");
  const std::string command =
      "PATH='" + path + "' " FARSIDE_BENCH_FABRIC " --quick --repetitions 1 --json " + json.string();
  EXPECT_EQ(std::system(command.c_str()), 0);
  std::ifstream file(json);
  nlohmann::json document = nlohmann::json::parse(file);
  std::filesystem::remove(json);
  return document;
}

std::set<std::string> names(const nlohmann::json& document) {
  std::set<std::string> names;
  for (const nlohmann::json& row : document["results"]) names.insert(row["name"].get<std::string>());
  return names;
}

// Every kind of figure that the benchmark promises is really measured, and beside raw UCX.
TEST(BenchFabric, QuickRunMeasuresEveryOperation) {
  const nlohmann::json document = run(std::getenv("PATH"));
  EXPECT_THAT(names(document),
              testing::IsSupersetOf({"direct READ 8 B depth 1 p50", "direct READ 4 KiB depth 16 bandwidth",
                                     "direct WRITE+flush 512 B depth 1 p50", "direct FETCH_ADD 8 B depth 64 p50",
                                     "direct wake a sleeper p50"}));
  std::set<std::string> baselines;
  for (const nlohmann::json& row : document["results"]) {
    EXPECT_GT(row["median"], 0) << row;
    baselines.insert(row["baseline"].get<std::string>());
  }
  EXPECT_TRUE(baselines.contains("raw UCX shared memory"));
}

// A machine without MPI gets the rest, and is told what is missing and how to get it.
TEST(BenchFabric, MissingMpirunIsSaidAndDoesNoHarm) {
  const auto folder = std::filesystem::path(testing::TempDir()) / ("no-mpi-" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  for (const char* tool : {"sh", "env"})
    std::filesystem::create_symlink(std::string("/usr/bin/") + tool, folder / tool);
  const nlohmann::json document = run(folder);
  std::filesystem::remove_all(folder);

  EXPECT_THAT(names(document), testing::Contains("direct READ 8 B depth 1 p50"));
  bool said = false;
  for (const nlohmann::json& gap : document["not_measured"]) {
    said = said || gap["why"].get<std::string>().starts_with("mpirun is missing");
  }
  EXPECT_TRUE(said) << document["not_measured"];
}

// Used wrongly: exit code 2.
TEST(BenchFabric, RefusesUnknownOptions) {
  const int status = std::system(FARSIDE_BENCH_FABRIC " --colour red 2>/dev/null");
  EXPECT_EQ(WEXITSTATUS(status), 2);
}

}  // namespace
}  // namespace farside::bench
