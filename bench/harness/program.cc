#include "bench/harness/program.h"

#include <fstream>
#include <iostream>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "farside/base/error.h"

namespace farside::bench {

namespace {

constexpr unsigned kQuickRepetitions = 3;

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  if (!file.flush()) throw errno_error("write", path, "check that its folder exists and has room");
}

}  // namespace

int run_program(int argc, char** argv, const std::string& name, const std::string& about, const Benchmark& measure) {
  Options options;
  std::filesystem::path json;
  CLI::App app("Measures " + about + ".", "farside bench " + name);
  app.add_option("--json", json, "Write the results to this file")->option_text("FILE");
  app.add_option("--plot", options.plots, "Draw curves into this folder (SVG)")->option_text("DIR");
  const auto* repetitions = app.add_option("--repetitions", options.repetitions, "Turns of each contender (7)")
                                ->check(CLI::Range(1, 1000))
                                ->option_text("N");
  auto* const quick = app.add_flag("--quick", options.quick, "Try the benchmark out: small, short, no measurement");
  app.add_flag("--full", options.full, "Leave out nothing, however long it takes")->excludes(quick);
  app.footer("Example:\n  farside bench " + name + " --json " + name + ".json");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (options.quick && repetitions->count() == 0) options.repetitions = kQuickRepetitions;

  try {
    if (!options.plots.empty()) std::filesystem::create_directories(options.plots);
    Report report("farside bench " + name + ": " + about, options.quick);
    measure(options, report);
    show_progress("");
    std::cout << report.table();
    if (!json.empty()) write_file(json, report.json());
    return 0;
  } catch (const UsageError& error) {
    std::cerr << "farside bench " << name << ": " << error.what() << '\n';
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "farside bench " << name << ": " << error.what() << '\n';
    return 1;
  }
}

void show_progress(const std::string& step) {
  static const bool terminal = ::isatty(STDERR_FILENO) != 0;
  if (terminal) std::cerr << "\r\033[K" << step << std::flush;
}

}  // namespace farside::bench
