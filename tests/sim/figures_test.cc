// The figures on modelled machines: small, but with all that they are made of.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "figures/anco.h"
#include "figures/report.h"

namespace farside::figures {
namespace {

Figure quick(std::uint32_t number) {
  return anco_figure(number, Effort::quick, 1, [](const Point&) {});
}

class AncoFigure : public testing::TestWithParam<std::uint32_t> {};

// Whoever draws it from the file must find each point, whole.
TEST_P(AncoFigure, IsATableOfItsPoints) {
  const Figure figure = quick(GetParam());
  const std::filesystem::path file =
      std::filesystem::path(testing::TempDir()) / ("anco-" + std::to_string(GetParam()) + ".csv");
  write_csv(figure, file);
  std::ifstream in(file);
  std::string header;
  std::getline(in, header);
  const auto commas = [](const std::string& line) { return std::ranges::count(line, ','); };
  std::size_t lines = 0;
  for (std::string line; std::getline(in, line); ++lines) {
    const std::string unquoted = line.substr(line.rfind('"'));  // a curve's name may have commas
    EXPECT_EQ(commas(unquoted), commas(header)) << line;
  }
  EXPECT_EQ(lines, figure.points.size());
  std::filesystem::remove(file);
}

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

}  // namespace
}  // namespace farside::figures
