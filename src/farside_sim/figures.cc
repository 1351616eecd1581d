// Measures the figures of papers on modelled machines, draws them, and says whether the text about them holds.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "farside_sim/commands.h"
#include "farside_sim/options.h"
#include "figures/anco.h"
#include "figures/nicam.h"
#include "figures/report.h"

namespace farside::farside_sim {

namespace {

struct Options {
  std::uint32_t number = 0;  // 0: all
  bool quick = false;
  std::uint64_t seed = 1;
  std::string machine = "tofu";
  std::optional<double> round_trip_us;
  std::optional<double> gb_per_s;
  std::filesystem::path out = ".";
};

sim::Machine machine_of(const Options& options) {
  sim::Machine machine = *std::ranges::find(sim::machines(), options.machine, &sim::Machine::name);
  sim::NetworkSpeed& network = machine.network;
  if (options.round_trip_us) network.round_trip = Duration(static_cast<std::int64_t>(*options.round_trip_us * 1e3));
  if (options.gb_per_s) network.link_bytes_per_s = network.nic_bytes_per_s = *options.gb_per_s * 1e9;
  return machine;
}

figures::Conditions conditions_of(const Options& options) {
  return {.machine = machine_of(options),
          .effort = options.quick ? figures::Effort::quick : figures::Effort::full,
          .seed = options.seed};
}

void show(const figures::Point& point) {
  if (::isatty(STDERR_FILENO) == 0) return;
  std::cerr << fmt::format("  {} at {}: {:.2f} GB/s\n", point.curve, point.x, point.measured.bytes_per_s() / 1e9);
}

void draw_and_print(const figures::Chart& chart, const std::filesystem::path& svg) {
  draw(chart.plot, svg);
  figures::print(chart, std::cout);
  std::cout.flush();
}

int draw_anco(const Options& options) {
  std::filesystem::create_directories(options.out);
  for (std::uint32_t number = 1; number <= figures::kAncoFigures; ++number) {
    if (options.number != 0 && options.number != number) continue;
    const figures::Figure figure = figures::anco_figure(number, conditions_of(options), show);
    const std::filesystem::path file = options.out / fmt::format("anco-{}", number);
    figures::write_csv(figure, file.string() + ".csv");
    draw_and_print(figure.chart(), file.string() + ".svg");
  }
  return 0;
}

int draw_nicam(const Options& options) {
  std::filesystem::create_directories(options.out);
  for (const std::uint32_t number : figures::kNicamFigures) {
    if (options.number != 0 && options.number != number) continue;
    const figures::Chart chart = figures::nicam_figure(number, conditions_of(options));
    const std::filesystem::path file = options.out / fmt::format("nicam-{}", number);
    figures::write_csv(chart, file.string() + ".csv");
    draw_and_print(chart, file.string() + ".svg");
  }
  return 0;
}

/// A paper whose figures are drawn.
struct Paper {
  std::string name;
  std::string says;
  std::string numbers;  ///< which figures there are
  std::vector<std::uint32_t> all;
  std::string machine;  ///< unless another one is named
  std::string examples;
  int (*draw)(const Options&);
};

void add_paper(CLI::App& command, const Paper& paper, Action& chosen) {
  CLI::App* const app = command.add_subcommand(paper.name, paper.says);
  const auto options = std::make_shared<Options>();
  options->machine = paper.machine;
  app->add_option("--figure", options->number, paper.numbers)->check(CLI::IsMember(paper.all));
  app->add_flag("--quick", options->quick, "Few nodes, little to do: shows that it works, and no more");
  app->add_option("--seed", options->seed, "What the runs depend on")->capture_default_str();
  app->add_option("--machine", options->machine, "Whose network and file system it is")
      ->check(CLI::IsMember(names_of(sim::machines())))
      ->capture_default_str();
  app->add_option("--round-trip-us", options->round_trip_us, "Of the network, instead of the machine's")
      ->check(CLI::PositiveNumber);
  app->add_option("--gb-per-s", options->gb_per_s, "Of each node's link, instead of the machine's")
      ->check(CLI::PositiveNumber);
  app->add_option("--out", options->out, "Where " + paper.name + "-N.csv and " + paper.name + "-N.svg go")
      ->capture_default_str();
  app->footer(paper.examples);
  app->callback([options, &chosen, draw = paper.draw] { chosen = [options, draw] { return draw(*options); }; });
}

}  // namespace

void add_figures(CLI::App& app, Action& chosen) {
  CLI::App* const command = app.add_subcommand("figures", "Measure a paper's figures on a modelled machine");
  command->require_subcommand(1);
  add_paper(*command,
            {.name = "anco",
             .says = "The figures of the cooperative cache (Anco)",
             .numbers = "One figure only; 1 to 4 are the paper's, 5 and 6 are not",
             .all = {1, 2, 3, 4, 5, 6},
             .machine = "tofu",
             .examples = "Examples:\n  farside-sim figures anco --figure 2 --out figures\n"
                         "  farside-sim figures anco --figure 5 --machine roce-100 --gb-per-s 25",
             .draw = draw_anco},
            chosen);
  add_paper(*command,
            {.name = "nicam",
             .says = "Those of barriers, overlap and shifts (NICAM)",
             .numbers = "One figure only",
             .all = {figures::kNicamFigures.begin(), figures::kNicamFigures.end()},
             .machine = "compas",
             .examples = "Examples:\n  farside-sim figures nicam --out figures\n"
                         "  farside-sim figures nicam --figure 7 --machine tcp",
             .draw = draw_nicam},
            chosen);
}

}  // namespace farside::farside_sim
