// farside bench far: far memory beside what else gives a program more memory than its machine has.
#include "bench/far/faults.h"
#include "bench/far/layers.h"
#include "bench/far/programs.h"

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
