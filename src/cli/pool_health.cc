#include "cli/pool_health.h"

#include <chrono>
#include <utility>

#include "farside/base/error.h"

namespace farside::cli {

namespace {

constexpr std::chrono::milliseconds kLimit(2'000);

/// Empty: each server has a copy that answers. Server n is on node n.
std::string why_lost(const std::vector<std::uint32_t>& copies) {
  std::string lost;
  for (std::size_t server = 0; server < copies.size(); ++server) {
    if (copies[server] == 0) lost += (lost.empty() ? "" : ", ") + std::to_string(server);
  }
  if (lost.empty()) return lost;
  return "no copy answers of server " + lost +
         " (on the node of the same number): its keys cannot be used; the node serves again when it has been started "
         "again, but with --kv-copies 2, where the keys are lost, and the pool must be ended and started anew";
}

/// A server has two copies of which one was missing when they were counted.
bool has_healed(const KvStatus& status) {
  for (std::size_t server = 0; server < status.servers.size(); ++server) {
    if (status.servers[server].copies == kv::Copies::both && status.copies[server] < 2) return true;
  }
  return false;
}

KvStatus ask_kv() {
  KvStatus status;
  try {
    kv::ClientOptions found;
    kv::SessionOptions options;
    found.time_out = options.time_out = kLimit;
    kv::Client client(found);
    status.copies = client.copies();
    status.failure = why_lost(status.copies);
    if (!status.failure.empty()) return status;
    auto servers = client.open_session(options)->use();
    if (!servers.done()) status.failure = "a server does not answer";
    status.servers = std::move(servers.value);
    if (has_healed(status)) status.copies = client.copies();
    status.failure = why_lost(status.copies);
  } catch (const Error& error) {
    status.failure = error.what();
  }
  return status;
}

FarStatus ask_far() {
  FarStatus status;
  try {
    status.nodes = far::ask_use({.time_out = kLimit});
  } catch (const Error& error) {
    status.failure = error.what();
  }
  return status;
}

/// Empty: there is none.
std::string journal_flaw(kv::JournalState journal) {
  if (journal == kv::JournalState::full) {
    return "the disk of its journal is full: it takes nothing but erasures; make room on that disk";
  }
  if (journal == kv::JournalState::failed) {
    return "the disk of its journal has failed: it takes no change; start the pool again when the disk is sound";
  }
  if (journal == kv::JournalState::damaged) {
    return "the disk of its journal has not what was written to it: what is in memory is written anew; replace that "
           "disk";
  }
  return "";
}

void add_copies(const std::string& server, std::uint32_t answering, const kv::MemoryUse& use,
                std::vector<std::string>& problems) {
  const std::string since = server + ": its keys have had one copy for " + std::to_string(use.degraded_s) + " s; ";
  if (use.copies == kv::Copies::copying) {
    problems.push_back(since + "another is being made (" + std::to_string(use.copied_permille / 10) + " %)");
  } else if (use.copies == kv::Copies::one) {
    problems.push_back(since + "another is made once the node for it is up");
  } else if (answering < 2) {
    problems.push_back(server + ": one of its two copies does not answer");
  }
}

void add_problems(const KvStatus& kv, std::uint32_t wanted_copies, std::vector<std::string>& problems) {
  if (!kv.failure.empty()) return problems.push_back("keys and values: " + kv.failure);
  for (std::size_t server = 0; server < kv.servers.size(); ++server) {
    const std::string name = "server " + std::to_string(server);
    const std::string flaw = journal_flaw(kv.servers[server].journal);
    if (!flaw.empty()) problems.emplace_back(name).append(": ").append(flaw);
    if (wanted_copies > 1) add_copies(name, kv.copies[server], kv.servers[server], problems);
  }
}

void add_problems(const FarStatus& far, std::vector<std::string>& problems) {
  if (!far.failure.empty()) return problems.push_back("far memory: " + far.failure);
  for (std::size_t node = 0; node < far.nodes.size(); ++node) {
    if (!far.nodes[node]) problems.push_back("node " + std::to_string(node) + " does not answer for far memory");
  }
}

std::vector<std::string> problems_of(const PoolHealth& health) {
  std::vector<std::string> problems;
  for (const node::NodeStatus& node : health.pool.nodes) {
    if (node.socket.state == node::SocketStatus::State::answered) continue;
    problems.push_back("node " + std::to_string(node.node.rank) + " is " + state_text(node));
  }
  if (!health.pool.has_supervisor) {
    problems.emplace_back(
        "the process of farside up has ended on this machine, and its nodes go on: one that dies is not started again; "
        "run farside up there as before, which takes them over");
  }
  if (health.pool.lacks_coordinator()) {
    problems.emplace_back(
        "the coordinator, in the process of farside up (--listen), does not answer: no death on another machine is "
        "noticed, and no node joins");
  }
  for (const team::Rank rank : health.pool.lost_elsewhere()) {
    problems.push_back("node " + std::to_string(rank) +
                       ", of another machine, is lost: it has ended, or cannot be reached; see farside status there");
  }
  if (health.kv) add_problems(*health.kv, health.pool.record.kv_copies, problems);
  if (health.far) add_problems(*health.far, problems);
  return problems;
}

}  // namespace

std::string state_text(const node::NodeStatus& node) {
  switch (node.socket.state) {
    case node::SocketStatus::State::answered: return "up";
    case node::SocketStatus::State::silent: return "silent";
    case node::SocketStatus::State::gone: return node.is_running ? "starting" : "dead";
  }
  return "";
}

PoolHealth ask_health(node::PoolStatus pool) {
  PoolHealth health{std::move(pool), std::nullopt, std::nullopt};
  if (health.pool.record.kv_bytes != 0) health.kv = ask_kv();
  if (health.pool.record.far_bytes != 0) health.far = ask_far();
  health.problems = problems_of(health);
  return health;
}

}  // namespace farside::cli
