#include "cli/kv/session.h"

#include <utility>

#include "farside/base/error.h"
#include "farside/base/units.h"

namespace farside::cli {

void KvArguments::add_to(CLI::App& command) {
  command.add_option("--timeout", time_out, "Give up after so long")->type_name("TIME")->capture_default_str();
  CLI::Option* secret_option = command.add_option("--secret", secret, "The pool's secret")->type_name("FILE");
  command.add_option("--server", server, "Of a pool that has no node on this machine: where one of its servers is")
      ->type_name("HOST:PORT")
      ->needs(secret_option);
}

std::chrono::milliseconds KvArguments::limit() const { return parse_duration(time_out, "--timeout"); }

kv::ClientOptions KvArguments::client() const {
  return {.runtime_dir = {}, .server = server, .secret = secret, .time_out = limit()};
}

kv::SessionOptions KvArguments::session() const {
  kv::SessionOptions options;
  options.time_out = limit();
  return options;
}

kv::SessionOptions KvArguments::session_for(std::vector<std::string> keys) {
  kv::SessionOptions options;
  options.keys = std::move(keys);
  return options;
}

void expect_done(Outcome outcome, const std::string& tried, const std::string& on) {
  if (outcome == Outcome::done) return;
  const char* const why = outcome == Outcome::timed_out   ? "a server did not answer in time"
                          : outcome == Outcome::link_lost ? "the connection to a server broke"
                                                          : "a server is lost";
  throw Error({tried, on, why, "see farside status"});
}

void expect_done(kv::PutOutcome outcome, const std::string& tried, const std::string& on) {
  switch (outcome) {
    case kv::PutOutcome::done: return;
    case kv::PutOutcome::full:
      throw Error({tried, on, "a server has no room for it; nothing was changed",
                   "erase something, or start the pool with a larger --kv"});
    case kv::PutOutcome::unwritable:
      throw Error({tried, on,
                   "a server can keep nothing more: its journal's disk is full or has failed, its standby does not "
                   "keep up, or too much waits for another server, which does not answer; nothing was changed",
                   "see farside status; on a full disk erasing still works"});
    case kv::PutOutcome::too_few_copies:
      throw Error({tried, on,
                   "a server has one copy, and the pool was started with --kv-min-copies 2; nothing was changed",
                   "try again when farside status names no server with one copy"});
    case kv::PutOutcome::differs:
      throw Error({tried, on, "another client wrote the key concurrently; nothing was changed", ""});
    case kv::PutOutcome::unknown:
      throw Error({tried, on, "a server did not answer in time, or is lost; all of it is done, or nothing",
                   "see farside status, and what is there"});
  }
}

}  // namespace farside::cli
