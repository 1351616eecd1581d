#include "bench/far/kernels/frame.h"

#include <chrono>
#include <condition_variable>
#include <iostream>
#include <mutex>
#include <string>
#include <thread>

#include <nlohmann/json.hpp>

#include "bench/far/kernels/kernel.h"

namespace farside::bench {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// What comes and goes, over time.
class Sampler {
 public:
  Sampler(const Memory& memory, unsigned interval_ms, Clock::time_point start) {
    if (interval_ms == 0) return;
    thread_ = std::jthread([this, &memory, interval_ms, start](const std::stop_token& stop) {
      std::unique_lock lock(mutex_);
      while (!stopped_.wait_for(lock, stop, std::chrono::milliseconds(interval_ms),
                                [&] { return stop.stop_requested(); })) {
        const Traffic now = memory.traffic();
        samples_.push_back({seconds_since(start), now.bytes_in, now.bytes_out});
      }
    });
  }
  [[nodiscard]] nlohmann::json samples() {
    if (thread_.joinable()) {
      thread_.request_stop();
      thread_.join();
    }
    return samples_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any stopped_;
  nlohmann::json samples_ = nlohmann::json::array();
  std::jthread thread_;
};

struct Options {
  std::string name;
  std::uint64_t bytes = 0;
  unsigned rounds = 0;
  unsigned sample_ms = 0;
  bool waits = false;
};

void await_order() {
  std::cout << "ready" << std::endl;
  std::string line;
  std::getline(std::cin, line);
}

nlohmann::json run(const Options& options, const KernelMemory& where) {
  const KernelKind& kind = kernel_kind(options.name);
  const KernelSize size{options.bytes == 0 ? kind.size.bytes : options.bytes,
                        options.rounds == 0 ? kind.size.rounds : options.rounds};
  const std::unique_ptr<Memory> memory = where.open(size.bytes);
  const std::unique_ptr<Kernel> kernel = kind.make(*memory, size);
  kernel->prepare();
  if (options.waits) await_order();

  const Traffic before = memory->traffic();
  const auto start = Clock::now();
  Sampler sampler(*memory, options.sample_ms, start);
  kernel->run();
  const double seconds = seconds_since(start);
  nlohmann::json samples = sampler.samples();
  const Traffic after = memory->traffic();
  return {{"kernel", kind.name},
          {"bytes", size.bytes},
          {"seconds", seconds},
          {"operations", kernel->operations()},
          {"checked", kernel->checked()},
          {"bytes_in", after.bytes_in - before.bytes_in},
          {"bytes_out", after.bytes_out - before.bytes_out},
          {"bytes_before", {before.bytes_in, before.bytes_out}},
          {"samples", std::move(samples)}};
}

std::string list_of_kernels() {
  std::string text = "Kernels:\n";
  for (const KernelKind& kind : kernel_kinds()) {
    text += "  " + std::string(kind.name) + ": " + std::string(kind.about) + "\n";
  }
  return text;
}

}  // namespace

int run_kernel(int argc, char** argv, const KernelMemory& where) {
  Options options;
  CLI::App app("Runs a computation on more memory than there may be.");
  app.add_option("KERNEL", options.name, "Which")->required();
  app.add_option("--bytes", options.bytes, "Memory of its arrays, about (the paper's)")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--rounds", options.rounds, "How often it goes over them")->check(CLI::Range(1, 100000));
  app.add_option("--sample", options.sample_ms, "Note every so many milliseconds what came and went");
  app.add_flag("--wait", options.waits, "Say \"ready\" when the arrays are filled, and await a line");
  where.add_options(app);
  app.footer(list_of_kernels());
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    std::cout << run(options, where) << std::endl;
    return 0;
  } catch (const std::exception& error) {
    std::cerr << argv[0] << ": " << error.what() << '\n';
    return 1;
  }
}

}  // namespace farside::bench
