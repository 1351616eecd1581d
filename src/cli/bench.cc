#include <cerrno>
#include <filesystem>
#include <string>
#include <vector>

#include <unistd.h>

#include "farside/base/error.h"

#include "cli/commands.h"

namespace farside::cli {

namespace {

constexpr std::string_view kPrefix = "bench-";

/// Returns the folder of the benchmark programs, as seen from the command: the same in the build tree and in the
/// installed tree. They are programs of their own so that the command itself needs neither MPI nor raw UCX.
std::filesystem::path programs_folder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "libexec" / "farside";
}

std::string names() {
  std::string names;
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(programs_folder(), missing)) {
    const std::string file = entry.path().filename();
    if (file.starts_with(kPrefix)) names += (names.empty() ? "" : ", ") + file.substr(kPrefix.size());
  }
  return names.empty() ? "none, in " + programs_folder().string() : names;
}

/// Becomes the benchmark program; returns only by an exception.
int run_benchmark(const std::vector<std::string>& words) {
  if (words.empty()) throw UsageError({"run", "a benchmark", "no NAME was given", "there are: " + names()});
  const std::string& name = words.front();
  std::string program = programs_folder() / (std::string(kPrefix) + name);
  std::vector<std::string> arguments(words.begin() + 1, words.end());
  std::vector<char*> pointers{program.data()};
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  ::execv(program.c_str(), pointers.data());
  if (errno == ENOENT) {
    throw UsageError({"run the benchmark", name, "there is none of that name", "there are: " + names()});
  }
  throw errno_error("run the benchmark", program);
}

}  // namespace

void add_bench(CLI::App& app, Action& chosen) {
  CLI::App* bench =
      app.add_subcommand("bench", "Compare farside with alternatives: base, fabric, cache, comm, far, gas, kv, arrays");
  bench->prefix_command();  // the rest belongs to the benchmark program
  bench->footer(
      "Usage: farside bench NAME [--json FILE] [--plot DIR] [--quick]\n"
      "farside bench NAME --help lists the options of that benchmark.\n\n"
      "Example:\n  farside bench fabric --json fabric.json");
  bench->callback([bench, &chosen] { chosen = [words = bench->remaining()] { return run_benchmark(words); }; });
}

void add_kv_bench(CLI::App& kv, Action& chosen) {
  CLI::App* bench = kv.add_subcommand("bench", "Measure a store beside two-phase locking and Redis: farside bench kv");
  bench->prefix_command();
  bench->set_help_flag();  // the benchmark's own
  bench->callback([bench, &chosen] {
    std::vector<std::string> words = bench->remaining();
    words.insert(words.begin(), "kv");
    chosen = [words] { return run_benchmark(words); };
  });
}

}  // namespace farside::cli
