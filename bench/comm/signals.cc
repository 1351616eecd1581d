#include "bench/comm/amounts.h"
#include "bench/comm/tables.h"

namespace farside::bench {

void measure_signals(const Jobs& jobs, Report& report) {
  report.continue_table(jobs.fabric() + ": 8 bytes from one program to the other, as in LogP");
  const auto add = [&](const std::string& what, const std::string& ours, const std::string& mpi) {
    const TimingRace race = jobs.race({{.who = Who::farside, .operation = ours, .amount = kStreamBytes},
                                       {.who = Who::mpi, .operation = mpi, .amount = kStreamBytes}});
    report.add(race.p50(jobs.fabric() + " " + what));
  };
  add("put and signal, one way", "to-and-fro", "to-and-fro");
  add("put and count, overhead and gap", "issue+count", "issue+count");
  add("active message, one way", "message-to-and-fro", "to-and-fro");
  add("active message, gap", "message-stream", "stream");
}

}  // namespace farside::bench
