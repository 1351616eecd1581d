// The figures on modelled machines: small, but with all that they are made of.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "figures/anco.h"
#include "figures/nicam.h"
#include "figures/report.h"

namespace farside::figures {
namespace {

Figure quick(std::uint32_t number) {
  return anco_figure(number, {.machine = sim::machines().front(), .effort = Effort::quick}, [](const Point&) {});
}

class AncoFigure : public testing::TestWithParam<std::uint32_t> {};

// What no machine can do: use more of the file system than there is, or hold more blocks than the file has.
TEST_P(AncoFigure, StaysWithinWhatTheMachineHas) {
  const Figure figure = quick(GetParam());
  EXPECT_FALSE(figure.claims.empty());
  for (const auto& [curve, x, measured] : figure.points) {
    EXPECT_GT(measured.bytes_per_s(), 0) << curve << " at " << x;
    EXPECT_LE(measured.file_busy, 1.001) << curve << " at " << x;
    EXPECT_LE(measured.distinct, std::min(measured.held, measured.blocks_in_file)) << curve << " at " << x;
  }
}

INSTANTIATE_TEST_SUITE_P(All, AncoFigure, testing::Range(1U, kAncoFigures + 1));

TEST(AncoFigures, AreTheSameEachTime) {
  const Figure one = quick(1);
  const Figure other = quick(1);
  ASSERT_EQ(one.points.size(), other.points.size());
  for (std::size_t i = 0; i < one.points.size(); ++i) {
    EXPECT_EQ(one.points[i].measured.seconds, other.points[i].measured.seconds) << i;
    EXPECT_EQ(one.points[i].measured.operations, other.points[i].measured.operations) << i;
  }
}

TEST(AncoFigures, LoadEachBlockOnceWithOneGroup) {
  const Figure figure = quick(2);
  for (const double nodes : figure.xs()) EXPECT_EQ(figure.at("1 group", nodes).loads_per_block(), 1) << nodes;
}

// Why one group wins at 256 KiB: the four neighbours that want a block are in four groups, and all of them load it.
TEST(AncoFigures, LoadABlockForEachGroupWhoseMembersMeetThere) {
  const Figure figure = quick(6);
  EXPECT_EQ(figure.at("1 group", 256).loads_per_block(), 1);
  EXPECT_GT(figure.at("4 groups, rank mod 4", 256).loads_per_block(), 3.5);
  EXPECT_EQ(figure.at("4 groups of neighbours", 256).loads_per_block(), 1);
}

TEST(AncoFigures, LoadLessTheMoreSingletsAreKept) {
  const Figure figure = quick(1);
  const double largest = figure.xs().back();
  EXPECT_GT(figure.at("ratio 0.0", largest).loads, figure.at("ratio 0.5", largest).loads);
  EXPECT_GT(figure.at("ratio 0.5", largest).loads, figure.at("ratio 0.9", largest).loads);
}

Chart quick_nicam(std::uint32_t number) {
  return nicam_figure(number, {.machine = sim::machines().back(), .effort = Effort::quick});
}

// Who waits for nothing loses nothing: overlap is never slower, and no speed-up beyond all threads of all nodes.
TEST(NicamFigures, OverlapGainsAndStaysWithinTheProcessors) {
  const Chart chart = quick_nicam(7);
  ASSERT_EQ(chart.plot.curves.size(), 6U);
  for (std::size_t curve = 0; curve < 6; curve += 2) {
    const double threads = static_cast<double>(1U << curve / 2);
    const auto& without = chart.plot.curves[curve].points;
    const auto& overlapped = chart.plot.curves[curve + 1].points;
    for (std::size_t i = 0; i < without.size(); ++i) {
      EXPECT_GT(overlapped[i].second, without[i].second) << curve << " at " << without[i].first;
      EXPECT_LE(overlapped[i].second, threads * without[i].first) << curve << " at " << without[i].first;
    }
  }
}

TEST(NicamFigures, ARelaxedShiftIsFasterAtEverySize) {
  const auto curves = quick_nicam(9).plot.curves;
  ASSERT_EQ(curves.size(), 2U);
  for (std::size_t i = 0; i < curves[0].points.size(); ++i) {
    EXPECT_LT(curves[1].points[i].second, curves[0].points[i].second) << curves[0].points[i].first;
  }
}

// A level of the tree more is passed from 8 to 16 nodes; within a level all are released at once, not one by one.
TEST(NicamFigures, ABarrierTellsAllThatItEndedAtOnce) {
  const auto& meeting = quick_nicam(6).plot.curves.at(0).points;
  ASSERT_EQ(meeting.size(), 4U);
  EXPECT_LT(meeting[2].second, 2 * meeting[0].second);
}

// A program that draws a figure from its file must find each point, whole.
TEST(Report, WritesEachPointOnALine) {
  const Measured measured{.seconds = 2,
                          .bytes = 5e9,
                          .blocks_in_file = 10,
                          .loads = 11,
                          .copies = 12,
                          .hits = 13,
                          .operations = 14,
                          .busiest_bytes = 15,
                          .loading_seconds = 0.25,
                          .copying_seconds = 0.75,
                          .file_busy = 0.5,
                          .held = 16,
                          .distinct = 9};
  Figure figure{};
  figure.points = {{"1 group", 8, measured}, {"16 KiB, 4 groups", 0.5, measured}};
  const std::filesystem::path file =
      std::filesystem::path(testing::TempDir()) / ("farside-report-" + std::to_string(getpid()) + ".csv");
  write_csv(figure, file);
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  std::filesystem::remove(file);
  EXPECT_EQ(text.str(),
            "curve,x,gb_per_s,seconds,blocks_in_file,loads,copies,hits,operations,busiest_nic_bytes,loading_seconds,"
            "copying_seconds,file_system_busy,blocks_held,distinct_blocks_held\n"
            "\"1 group\",8,2.5000,2.000000,10,11,12,13,14,15,0.250000,0.750000,0.5000,16,9\n"
            "\"16 KiB, 4 groups\",0.5,2.5000,2.000000,10,11,12,13,14,15,0.250000,0.750000,0.5000,16,9\n");
}

// A curve need not have a point everywhere.
TEST(Report, PrintsATableAndWhatIsSaidOfIt) {
  Figure figure{.number = 7, .title = "Title", .setup = "Setup.", .x_label = "nodes", .points = {}, .claims = {}};
  figure.points = {{"a", 2, {.seconds = 1, .bytes = 3e9}}, {"b", 1, {.seconds = 1, .bytes = 4e9}}};
  figure.claims = {{"One.", true, "1 of 2", ""}, {"Two.", false, "0 of 2", "Because."}};
  std::ostringstream out;
  print(figure.chart(), out);
  EXPECT_EQ(out.str(),
            "## Figure 7: Title\n\nSetup.\n\nGB/s by nodes:\n\n"
            "| | 1 | 2 |\n| --- | ---: | ---: |\n| a | | 3.00 |\n| b | 4.00 | |\n\n"
            "- **One.** Agrees: 1 of 2.\n- **Two.** Does not agree: 0 of 2. Because.\n\n");
}

}  // namespace
}  // namespace farside::figures
