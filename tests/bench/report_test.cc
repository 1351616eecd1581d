// What a benchmark prints and writes.
#include "bench/harness/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace farside::bench {
namespace {

using testing::HasSubstr;
using testing::Not;

const Series kOurs{"farside", {10, 10, 10}};
const Series kSlow{"slow", {30, 30, 30}, 2.0};
const Series kFast{"fast", {5, 5, 5}, 1.0};

nlohmann::json parsed(const Report& report) { return nlohmann::json::parse(report.json()); }

// Programs find a figure by its name and its baseline, and the machine it was measured on beside it.
TEST(Report, JsonHasOneRowForEachResultAndBaseline) {
  Report report("a benchmark", false);
  report.add(compare("latency", "ns", Better::lower, kOurs, {kSlow, kFast}));
  report.add(compare("alone", "GB/s", Better::higher, kOurs, {}));
  const nlohmann::json document = parsed(report);

  ASSERT_EQ(document["results"].size(), 3U);
  const nlohmann::json& row = document["results"][0];
  EXPECT_EQ(row["name"], "latency");
  EXPECT_EQ(row["unit"], "ns");
  EXPECT_EQ(row["median"], 10);
  EXPECT_EQ(row["low"], 10);
  EXPECT_EQ(row["high"], 10);
  EXPECT_EQ(row["baseline"], "slow");
  EXPECT_EQ(row["baseline_median"], 30);
  EXPECT_EQ(row["speedup"], 3);
  EXPECT_EQ(document["results"][1]["baseline"], "fast");
  EXPECT_FALSE(document["results"][2].contains("baseline"));
  EXPECT_FALSE(document["quick"].get<bool>());
  EXPECT_FALSE(document["date"].get<std::string>().empty());
  EXPECT_FALSE(document["farside"].get<std::string>().empty());
  EXPECT_GT(document["machine"]["memory_bytes"], 0);
  EXPECT_GT(document["machine"]["cores"], 0);
  for (const char* text : {"cpu", "kernel"}) EXPECT_FALSE(document["machine"][text].get<std::string>().empty());
}

// A reader of the table sees at once where farside is slower than it wants to be, and only there.
TEST(Report, TableMarksWhatWasMissed) {
  Report good("a benchmark", false);
  good.add(compare("latency", "ns", Better::lower, kOurs, {kSlow}));
  EXPECT_THAT(good.table(), HasSubstr("3.00x "));
  EXPECT_THAT(good.table(), Not(HasSubstr("x !")));
  Report missed("a benchmark", false);
  missed.add(compare("latency", "ns", Better::lower, kOurs, {kFast}));
  EXPECT_THAT(missed.table(), HasSubstr("0.50x !"));
}

// A figure that cannot be trusted says so itself.
TEST(Report, WarnsOfSpreadOfDearClocksAndOfQuickRuns) {
  Report calm("a benchmark", false);
  calm.add(compare("latency", "ns", Better::lower, kOurs, {}));
  calm.note_clock_share(0.01);
  EXPECT_THAT(calm.table(), Not(HasSubstr("warning")));
  EXPECT_TRUE(parsed(calm)["warnings"].empty());

  Report doubtful("a benchmark", true);
  doubtful.add(compare("latency", "ns", Better::lower, {"farside", {1, 10, 100}}, {}));
  doubtful.note_clock_share(0.05);
  EXPECT_THAT(doubtful.table(), HasSubstr("1 of 1 results spread"));
  EXPECT_THAT(doubtful.table(), HasSubstr("the clock took up to 5.0 %"));
  EXPECT_THAT(doubtful.table(), HasSubstr("quick run"));
  EXPECT_TRUE(parsed(doubtful)["quick"].get<bool>());
  EXPECT_EQ(parsed(doubtful)["warnings"].size(), 3U);
}

// What is missing from the results is not passed over.
TEST(Report, SaysWhatWasNotMeasuredAndWhy) {
  Report report("a benchmark", false);
  report.not_measured("Open MPI RMA", "mpirun is missing");
  EXPECT_THAT(report.table(), HasSubstr("not measured: Open MPI RMA: mpirun is missing"));
  EXPECT_EQ(parsed(report)["not_measured"][0]["why"], "mpirun is missing");
}

}  // namespace
}  // namespace farside::bench
