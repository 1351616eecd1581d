// Measures the figures of papers on modelled machines, draws them, and says whether the text about them holds.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <unistd.h>

#include "farside_sim/commands.h"
#include "farside_sim/options.h"
#include "figures/anco.h"
#include "figures/report.h"

namespace farside::sim {

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

Machine machine_of(const Options& options) {
  Machine machine = *std::ranges::find(machines(), options.machine, &Machine::name);
  NetworkSpeed& network = machine.network;
  if (options.round_trip_us) network.round_trip = Duration(static_cast<std::int64_t>(*options.round_trip_us * 1e3));
  if (options.gb_per_s) network.link_bytes_per_s = network.nic_bytes_per_s = *options.gb_per_s * 1e9;
  return machine;
}

void show(const figures::Point& point) {
  if (::isatty(STDERR_FILENO) == 0) return;
  std::cerr << fmt::format("  {} at {}: {:.2f} GB/s\n", point.curve, point.x, point.measured.bytes_per_s() / 1e9);
}

int draw_anco(const Options& options) {
  std::filesystem::create_directories(options.out);
  const figures::Conditions conditions{
      .machine = machine_of(options),
      .effort = options.quick ? figures::Effort::quick : figures::Effort::full,
      .seed = options.seed,
  };
  for (std::uint32_t number = 1; number <= figures::kAncoFigures; ++number) {
    if (options.number != 0 && options.number != number) continue;
    const figures::Figure figure = figures::anco_figure(number, conditions, show);
    const std::filesystem::path file = options.out / fmt::format("anco-{}", number);
    figures::write_csv(figure, file.string() + ".csv");
    figures::write_svg(figure, file.string() + ".svg");
    figures::print(figure, std::cout);
    std::cout.flush();
  }
  return 0;
}

}  // namespace

void add_figures(CLI::App& app, Action& chosen) {
  CLI::App* const command = app.add_subcommand("figures", "Measure a paper's figures on a modelled machine");
  command->require_subcommand(1);
  CLI::App* const anco = command->add_subcommand("anco", "The figures of the cooperative cache (Anco)");
  const auto options = std::make_shared<Options>();
  anco->add_option("--figure", options->number, "One figure only; 1 to 4 are the paper's, 5 and 6 are not")
      ->check(CLI::Range(1U, figures::kAncoFigures));
  anco->add_flag("--quick", options->quick, "Few nodes and blocks: shows that it works, and no more");
  anco->add_option("--seed", options->seed, "What the runs depend on")->capture_default_str();
  anco->add_option("--machine", options->machine, "Whose network and file system it is")
      ->check(CLI::IsMember(names_of(machines())))
      ->capture_default_str();
  anco->add_option("--round-trip-us", options->round_trip_us, "Of the network, instead of the machine's")
      ->check(CLI::PositiveNumber);
  anco->add_option("--gb-per-s", options->gb_per_s, "Of each node's link, instead of the machine's")
      ->check(CLI::PositiveNumber);
  anco->add_option("--out", options->out, "Where anco-N.csv and anco-N.svg go")->capture_default_str();
  anco->footer(
      "Examples:\n  farside-sim figures anco --figure 2 --out figures\n"
      "  farside-sim figures anco --figure 5 --machine roce-100 --gb-per-s 25");
  anco->callback([options, &chosen] { chosen = [options] { return draw_anco(*options); }; });
}

}  // namespace farside::sim
