// farside bench far: far memory beside what else gives a program more memory than its machine has.
#include <optional>

#include "bench/far/faults.h"
#include "bench/far/layers.h"
#include "bench/far/losses.h"
#include "bench/far/programs.h"
#include "bench/harness/hosts.h"

namespace farside::bench {
namespace {

void measure(const Options& options, Report& report) {
  const auto attempt = [&](const std::string& what, auto&& part) {
    try {
      part();
    } catch (const std::exception& error) {
      report.not_measured(what, error.what());
    }
  };
  for (const auto part : {measure_layers, measure_faults}) {
    for (const Fabric* const fabric : {&direct(), &over_tcp()}) {
      attempt("far memory, " + fabric->name, [&] { part(*fabric, options, report); });
    }
  }
  const Fabric* network = &over_tcp();
  std::optional<Hosts> hosts;
  std::optional<Fabric> between_hosts;
  attempt("far memory between hosts", [&] {
    network = &between_hosts.emplace(hosts.emplace().fabric());
    measure_faults(*network, options, report);
  });
  for (const Fabric* const fabric : {&direct(), network}) {
    attempt("a node killed, " + fabric->name, [&] { measure_losses(*fabric, options, report); });
  }
  hosts.reset();
  attempt("programs in far memory", [&] { measure_programs(options, report); });
  attempt("Himeno in far memory", [&] { measure_himeno(options, report); });
  attempt("what comes and goes", [&] { measure_traffic(options, report); });
}

}  // namespace
}  // namespace farside::bench

int main(int argc, char** argv) {
  return farside::bench::run_program(
      argc, argv, "far", "the memory of other nodes beside disk, swap and this machine's", farside::bench::measure);
}
