#include <chrono>
#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "farside/base/error.h"
#include "farside/base/units.h"

#include "cli/commands.h"
#include "cli/pool_health.h"
#include "cli/table.h"
#include "net/runtime_dir.h"
#include "node/block_size_advice.h"
#include "node/pool/pool.h"

namespace farside::cli {

namespace {

namespace node_socket = cache::node_socket;

std::string count_and_bytes(std::uint64_t count, std::uint64_t bytes) {
  return std::to_string(count) + " (" + format_bytes(bytes) + ")";
}

std::vector<std::string> figures(const node_socket::StatusReply& reply) {
  return {std::to_string(reply.blocks),
          std::to_string(reply.slot_count),
          std::to_string(reply.singlets),
          count_and_bytes(reply.hits_local, reply.hit_bytes_local),
          count_and_bytes(reply.blocks_from_peers, reply.bytes_from_peers),
          count_and_bytes(reply.blocks_from_files, reply.bytes_from_files),
          std::to_string(reply.discarded),
          std::to_string(reply.around),
          std::to_string(reply.busy)};
}

// Returns what programs left to the kernel without asking a node; empty: nothing.
std::string left_to_the_kernel(const node_socket::StatusReply& sum) {
  std::string text;
  const auto add = [&text](std::uint64_t count, const std::string& what) {
    if (count != 0) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + what;
  };
  add(sum.mappings, "mappings (" + format_bytes(sum.mapped_bytes) + ")");
  add(sum.direct, "files with O_DIRECT");
  add(sum.writable, "files open for writing");
  add(sum.fresh, "files that had just changed");
  return text;
}

void add_to(node_socket::StatusReply& sum, const node_socket::StatusReply& reply) {
  using Reply = node_socket::StatusReply;
  for (const auto field :
       {&Reply::blocks, &Reply::slot_count, &Reply::singlets, &Reply::hits_local, &Reply::hit_bytes_local,
        &Reply::blocks_from_peers, &Reply::bytes_from_peers, &Reply::blocks_from_files, &Reply::bytes_from_files,
        &Reply::discarded, &Reply::around, &Reply::busy, &Reply::mappings, &Reply::mapped_bytes, &Reply::direct,
        &Reply::writable, &Reply::fresh}) {
    sum.*field += reply.*field;
  }
}

// ---- How long blocks took

bool had_latencies(const node_socket::StatusReply& reply) { return reply.memory_p50_ns != 0 || reply.file_p50_ns != 0; }

// Nothing until a node has brought a block.
void print_latencies(const node::PoolStatus& pool) {
  using enum Table::Align;
  Table table({left, right, right, right, right});
  table.add({"node", "from memory: half within", "99 % within", "from files: half within", "99 % within"});
  bool any = false;
  const auto text = [](std::uint64_t ns) { return ns == 0 ? "-" : latency_text(ns); };
  for (const node::NodeStatus& node : pool.nodes) {
    if (node.socket.state != node::SocketStatus::State::answered || !had_latencies(node.socket.reply)) continue;
    const node_socket::StatusReply& reply = node.socket.reply;
    table.add({std::to_string(node.node.rank), text(reply.memory_p50_ns), text(reply.memory_p99_ns),
               text(reply.file_p50_ns), text(reply.file_p99_ns)});
    any = true;
  }
  if (!any) return;
  std::cout << '\n';
  table.print(std::cout);
}

// ---- The key-value store

std::string journal_text(kv::JournalState journal) {
  switch (journal) {
    case kv::JournalState::none: return "none";
    case kv::JournalState::sound: return "sound";
    case kv::JournalState::full: return "full";
    case kv::JournalState::failed: return "failed";
    case kv::JournalState::damaged: return "damaged";
  }
  return "";
}

void print_kv_table(const node::PoolStatus& pool, const KvStatus& kv) {
  using enum Table::Align;
  Table table({left, right, right, right, right, right, right});
  const bool has_copies = pool.record.kv_copies > 1;
  table.add({"server", "keys", "versions", "bytes", "of", "outside", has_copies ? "copies" : ""});
  for (std::size_t server = 0; server < kv.servers.size(); ++server) {
    const kv::MemoryUse& use = kv.servers[server];
    table.add({std::to_string(server), std::to_string(use.keys), std::to_string(use.versions),
               format_bytes(use.bytes_used), format_bytes(use.bytes_total), format_bytes(use.bytes_outside),
               has_copies ? std::to_string(kv.copies[server]) : ""});
  }
  std::cout << '\n';
  table.print(std::cout);
}

nlohmann::ordered_json kv_json(const node::PoolStatus& pool, const KvStatus& kv) {
  if (!kv.failure.empty()) return {{"failure", kv.failure}};
  nlohmann::ordered_json servers = nlohmann::ordered_json::array();
  for (const kv::MemoryUse& use : kv.servers) {
    servers.push_back({{"keys", use.keys},
                       {"versions", use.versions},
                       {"bytes_used", use.bytes_used},
                       {"bytes_total", use.bytes_total},
                       {"bytes_outside", use.bytes_outside}});
    if (use.journal != kv::JournalState::none) servers.back()["journal"] = journal_text(use.journal);
    if (pool.record.kv_copies > 1) {
      servers.back()["copies"] = kv.copies[servers.size() - 1];
      servers.back()["degraded"] = use.copies != kv::Copies::both;
      servers.back()["degraded_seconds"] = use.degraded_s;
      if (use.copies == kv::Copies::copying) servers.back()["copied_permille"] = use.copied_permille;
    }
  }
  return {{"servers", servers}};
}

// ---- Far memory

void print_far_table(const FarStatus& far) {
  using enum Table::Align;
  Table table({left, right, right});
  table.add({"node", "lent", "of"});
  for (std::size_t node = 0; node < far.nodes.size(); ++node) {
    const auto& use = far.nodes[node];
    if (use) {
      table.add({std::to_string(node), format_bytes(use->taken * use->slab_bytes),
                 format_bytes(use->slabs() * use->slab_bytes)});
    } else {
      table.add({std::to_string(node), "does not answer"});
    }
  }
  std::cout << '\n';
  table.print(std::cout);
}

nlohmann::ordered_json far_json(const FarStatus& far) {
  if (!far.failure.empty()) return {{"failure", far.failure}};
  nlohmann::ordered_json nodes = nlohmann::ordered_json::array();
  for (const auto& use : far.nodes) {
    if (use) {
      nodes.push_back({{"bytes_lent", use->taken * use->slab_bytes}, {"bytes_total", use->slabs() * use->slab_bytes}});
    } else {
      nodes.push_back({{"failure", "it does not answer"}});
    }
  }
  return {{"nodes", nodes}};
}

// ---- All of it

void print_table(const PoolHealth& health) {
  const node::PoolStatus& pool = health.pool;
  using enum Table::Align;
  Table table({left, right, left, right, right, right, right, right, right, right, right, right, right});
  table.add({"node", "process", "state", "restarts", "blocks", "of", "singlets", "hits", "from peers", "from files",
             "discarded", "around", "busy"});
  const auto add_row = [&table](std::vector<std::string> row, const node_socket::StatusReply& reply) {
    for (std::string& figure : figures(reply)) row.push_back(std::move(figure));
    table.add(std::move(row));
  };
  node_socket::StatusReply sum{};
  std::uint32_t restarts = 0;
  for (const node::NodeStatus& node : pool.nodes) {
    std::vector<std::string> row{std::to_string(node.node.rank), std::to_string(node.node.process), state_text(node),
                                 std::to_string(node.node.restarts)};
    restarts += node.node.restarts;
    if (node.socket.state == node::SocketStatus::State::answered) {
      add_row(std::move(row), node.socket.reply);
      add_to(sum, node.socket.reply);
    } else {
      table.add(std::move(row));
    }
  }
  add_row({"all", "", "", std::to_string(restarts)}, sum);
  table.print(std::cout);
  if (const std::string left = left_to_the_kernel(sum); !left.empty())
    std::cout << "left to the kernel: " << left << '\n';
  if (const auto block = node::better_block_bytes(sum, pool.record.block_bytes)) {
    std::cout << "the files are small: blocks of " << format_bytes(pool.record.block_bytes)
              << " are mostly empty, and others were discarded for them; farside up --block " << format_bytes(*block)
              << " would hold more\n";
  }
  print_latencies(pool);
  if (health.kv && health.kv->failure.empty()) print_kv_table(pool, *health.kv);
  if (health.far && health.far->failure.empty()) print_far_table(*health.far);
  if (!health.problems.empty()) std::cout << '\n';
  for (const std::string& problem : health.problems) std::cout << "problem: " << problem << '\n';
}

void print_json(const PoolHealth& health) {
  const node::PoolStatus& pool = health.pool;
  nlohmann::ordered_json nodes = nlohmann::ordered_json::array();
  for (const node::NodeStatus& node : pool.nodes) {
    nlohmann::ordered_json json{{"node", node.node.rank},
                                {"process", node.node.process},
                                {"state", state_text(node)},
                                {"restarts", node.node.restarts}};
    if (node.socket.state == node::SocketStatus::State::answered) {
      const node_socket::StatusReply& reply = node.socket.reply;
      json.update({{"slots", reply.slot_count},
                   {"blocks", reply.blocks},
                   {"singlets", reply.singlets},
                   {"hits", reply.hits_local},
                   {"hit_bytes", reply.hit_bytes_local},
                   {"blocks_from_peers", reply.blocks_from_peers},
                   {"bytes_from_peers", reply.bytes_from_peers},
                   {"blocks_from_files", reply.blocks_from_files},
                   {"bytes_from_files", reply.bytes_from_files},
                   {"discarded", reply.discarded},
                   {"around", reply.around},
                   {"busy", reply.busy},
                   {"mappings", reply.mappings},
                   {"mapped_bytes", reply.mapped_bytes},
                   {"direct", reply.direct},
                   {"writable", reply.writable},
                   {"fresh", reply.fresh},
                   {"memory_p50_ns", reply.memory_p50_ns},
                   {"memory_p99_ns", reply.memory_p99_ns},
                   {"file_p50_ns", reply.file_p50_ns},
                   {"file_p99_ns", reply.file_p99_ns}});
    }
    nodes.push_back(json);
  }
  nlohmann::ordered_json json{
      {"supervisor", pool.has_supervisor ? nlohmann::ordered_json(pool.record.supervisor) : nullptr},
      {"cache_bytes", pool.record.cache_bytes},
      {"block_bytes", pool.record.block_bytes},
      {"groups", pool.record.groups},
      {"nodes", nodes},
      {"lost_elsewhere", pool.lost_elsewhere()}};
  if (health.kv) json["kv"] = kv_json(pool, *health.kv);
  if (health.far) json["far"] = far_json(*health.far);
  json["problems"] = health.problems;
  std::cout << json.dump(2) << '\n';
}

constexpr int kDegraded = 1;
constexpr int kNothingToAsk = 2;

int status(bool json, const std::string& wait) {
  try {
    const node::PoolDirectory directory(net::runtime_dir());
    const PoolHealth health =
        ask_health(wait.empty() ? node::pool_status(directory)
                                : node::pool_status_when_up(directory, parse_duration(wait, "--wait")));
    json ? print_json(health) : print_table(health);
    return health.problems.empty() ? 0 : kDegraded;
  } catch (const std::exception& error) {
    std::cerr << "farside: " << error.what() << '\n';
    return kNothingToAsk;
  }
}

}  // namespace

void add_status(CLI::App& app, Action& chosen) {
  struct Arguments {
    bool json = false;
    std::string wait;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("status", "Show what the pool's nodes hold and where it came from");
  command->add_flag("--json", arguments->json, "For programs: sizes in bytes");
  command->add_option("--wait", arguments->wait, "Wait until the nodes of all machines are up, so long at most")
      ->type_name("TIME");
  command->footer(
      "restarts    how often the node died and was started again, empty; its other figures count from the last start\n"
      "hits        reads that programs took out of their own node's memory\n"
      "from peers  blocks that a node copied from another node's memory\n"
      "from files  blocks that a node read from the file system\n"
      "singlets    blocks that were not used for long, kept because no other node has them\n"
      "discarded   blocks that were dropped to make room\n"
      "around      requests that were sent to the file system: just changed, or not cacheable\n"
      "busy        requests that were sent there because it did not give the block in time\n\n"
      "What programs leave to the kernel without a request is counted below: mappings, and files that are read with\n"
      "O_DIRECT, are open for writing as well, or had just changed. Static programs are not seen at all.\n\n"
      "Then how long a node took to bring a block that a program asked for: from the memory of a node, or from files.\n"
      "--json has it in nanoseconds, 0 where none came. It may be 1/8 less.\n\n"
      "With --kv, then what each server has of keys and values. The memory of what was erased, has expired or was\n"
      "overwritten is given back some seconds later.\n\n"
      "With --far, then how much of its memory each node has lent.\n\n"
      "The figures are those of this machine's nodes. For other machines, only lost nodes are shown.\n\n"
      "Ends with 0 when all is well; with 1 when something is degraded or lost: a node of this machine is not up,\n"
      "one of another machine is lost, the coordinator, a server or a lender does not answer, keys have one copy\n"
      "instead of two, or a journal takes no changes; with 2 when there is no pool to ask. What is wrong is listed\n"
      "below, and by --json as problems.\n\n"
      "Example:\n  farside status --wait 60s");
  command->callback(
      [arguments, &chosen] { chosen = [arguments] { return status(arguments->json, arguments->wait); }; });
}

}  // namespace farside::cli
