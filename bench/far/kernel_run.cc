#include "bench/far/kernel_run.h"

#include <nlohmann/json.hpp>

namespace farside::bench {

namespace {

constexpr double kMegabyte = 1e6;

// lu-hp touches most pages once in each of its hundreds of hyperplanes.
std::uint64_t divisor_of(std::string_view name, const Options& options) {
  if (options.full) return 1;
  if (options.quick) return 64;
  return name == "lu-hp" ? 32 : 8;
}

}  // namespace

ScaledKernel::ScaledKernel(std::string_view name, const Options& options)
    : kind_(kernel_kind(name)), divisor_(divisor_of(name, options)), timeout_(options.full ? 900 : 60) {}

Contender::Program ScaledKernel::program(const std::string& file, std::vector<std::string> more) const {
  Contender::Program program{
      {sibling_program(file), name(), "--wait", "--bytes", std::to_string(bytes())}, {}, timeout_};
  program.command.insert(program.command.end(), more.begin(), more.end());
  return program;
}

Contender::Program ScaledKernel::in_memory(std::vector<std::string> more) const {
  return program("far-kernel", std::move(more));
}

Contender::Program ScaledKernel::in_heap(unsigned megabytes, std::vector<std::string> more) const {
  more.insert(more.end(), {"--local", std::to_string(local_bytes(megabytes))});
  return program("far-kernel-in-heap", std::move(more));
}

KernelRun run_kernel(const std::string& name, const Contender::Program& program) {
  Contender contender(name, program);
  const auto answer = nlohmann::json::parse(contender.ask("begin"));
  const double in_before = answer.at("bytes_before").at(0).get<double>();
  const double out_before = answer.at("bytes_before").at(1).get<double>();
  KernelRun run{.seconds = answer.at("seconds"),
                .operations = answer.at("operations"),
                .checked = answer.at("checked"),
                .megabytes_in = answer.at("bytes_in").get<double>() / kMegabyte,
                .megabytes_out = answer.at("bytes_out").get<double>() / kMegabyte,
                .samples = {}};
  for (const auto& sample : answer.at("samples")) {
    run.samples.push_back({sample.at(0), (sample.at(1).get<double>() - in_before) / kMegabyte,
                           (sample.at(2).get<double>() - out_before) / kMegabyte});
  }
  return run;
}

}  // namespace farside::bench
