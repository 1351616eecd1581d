// `farside bench fabric` as a whole, quick.
#include <gmock/gmock.h>

#include "tests/bench/quick_run.h"

namespace farside::bench {
namespace {

// Every kind of figure that the benchmark promises is really measured, on both fabrics and beside raw UCX.
TEST(BenchFabric, QuickRunMeasuresEveryOperation) {
  const nlohmann::json document = quick_run("fabric");
  EXPECT_THAT(names(document),
              testing::IsSupersetOf({"direct READ 8 B depth 1 p50", "direct READ 4 KiB depth 16 bandwidth",
                                     "direct WRITE+flush 512 B depth 1 p50", "direct FETCH_ADD 8 B depth 64 p50",
                                     "direct wake a sleeper p50", "ucx/TCP READ 8 B depth 1 p50",
                                     "ucx/TCP wake a sleeper p50"}));
  std::set<std::string> baselines;
  for (const nlohmann::json& row : document["results"]) {
    EXPECT_GT(row["median"], 0) << row;
    baselines.insert(row["baseline"].get<std::string>());
  }
  EXPECT_THAT(baselines, testing::IsSupersetOf({"raw UCX shared memory", "raw UCX over TCP"}));
}

// A machine without MPI gets the rest, and is told what is missing and how to get it.
TEST(BenchFabric, MissingMpirunIsSaidAndDoesNoHarm) {
  const auto folder = std::filesystem::path(testing::TempDir()) / ("no-mpi-" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  std::filesystem::create_symlink("/usr/bin/env", folder / "env");
  const nlohmann::json document = quick_run("fabric", "PATH=" + folder.string());
  std::filesystem::remove_all(folder);

  EXPECT_THAT(names(document), testing::Contains("direct READ 8 B depth 1 p50"));
  bool said = false;
  for (const nlohmann::json& gap : document["not_measured"]) {
    said = said || gap["why"].get<std::string>().starts_with("mpirun is missing");
  }
  EXPECT_TRUE(said) << document["not_measured"];
}

// Used wrongly: exit code 2, whether the benchmark is unknown or its option.
TEST(BenchFabric, RefusesWhatItDoesNotKnow) {
  for (const char* arguments : {" bench", " bench nothing", " bench fabric --colour red"}) {
    const int status = std::system((std::string(FARSIDE_COMMAND) + arguments + " 2>/dev/null").c_str());
    EXPECT_EQ(WEXITSTATUS(status), 2) << arguments;
  }
}

}  // namespace
}  // namespace farside::bench
