// farside authority: what a pool's authority has decided, and what an operator does when the machine that keeps it is
// lost.
#include <array>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "farside/base/error.h"
#include "farside/base/units.h"

#include "authority/etcd_store.h"
#include "authority/file_store.h"
#include "authority/office_store.h"
#include "cli/commands.h"
#include "cli/silence_argument.h"
#include "cli/table.h"
#include "net/runtime_dir.h"
#include "net/socket.h"
#include "node/pool/rebuilt_authority.h"
#include "team/decision_log.h"
#include "team/liveness.h"

namespace farside::cli {

namespace {

using authority::EtcdAddress;

struct Found {
  std::string where;
  std::optional<authority::Holder> holder;  ///< in etcd: the process that coordinates
  team::LoggedTeam logged;
};

/// A process that coordinates renews that twice a second.
constexpr std::chrono::seconds kManyRenewals{4};

node::PoolDirectory pool_directory() { return node::PoolDirectory(std::filesystem::absolute(net::runtime_dir())); }

Found read_file(const std::filesystem::path& path) {
  const std::vector<std::string> entries = authority::FileStore(path).read();
  if (entries.empty()) throw Error({"read the decisions in", path, "there is no such file", "name another one"});
  return {path, std::nullopt, team::read_team(entries)};
}

Found read_etcd(const std::string& text) {
  const EtcdAddress address = EtcdAddress::parse(text);
  const authority::OfficeKeys keys(address.pool);
  auto records = std::make_unique<authority::EtcdStore>(address);
  const auto view = authority::Office(*records, keys).look();
  if (!view) throw Error({"ask", records->name(), records->why(), "are the servers of etcd there?"});
  const std::string name = records->name();
  std::vector<std::string> entries;
  if (view->holder) {
    entries = authority::OfficeStore(std::move(records), keys, *view->holder, [](auto) { return false; }).read();
  }
  if (entries.empty()) throw Error({"find a pool in", name, "it has none", "check the name after the slash"});
  return {name, view->holder, team::read_team(entries)};
}

Found find(const std::string& named) {
  if (EtcdAddress::names_etcd(named)) return read_etcd(named);
  if (!named.empty()) return read_file(named);
  const node::PoolDirectory directory = pool_directory();
  const auto record = directory.read_record();
  if (record && EtcdAddress::names_etcd(record->meeting)) return read_etcd(record->meeting);
  if (directory.runs_authority()) return read_file(directory.authority() / "decisions");
  for (const auto& path : {directory.decisions(), directory.own_decisions(), directory.decisions_copy(),
                           directory.authority() / "decisions"}) {
    if (std::filesystem::exists(path)) return read_file(path);
  }
  throw Error({"find a pool's decisions in", directory.path(), "there are none", "name a file, or etcd://..."});
}

std::string state_of(const team::Membership& team, team::Rank rank) {
  if (!team.is_formed()) return "the pool has not formed";
  return team.is_present(rank) ? "present" : "lost";
}

void print(const Found& found) {
  const team::TeamState& state = found.logged.team.state();
  std::cout << "decisions    " << found.where << '\n';
  if (found.holder) {
    const std::string& address = found.holder->address;
    std::cout << "coordinator  " << (address.empty() ? "none" : address) << ", term " << found.holder->term << '\n';
  }
  std::cout << fmt::format("pool         {:016x}, generation {}, epoch {}\n", state.team, state.generation, state.epoch)
            << "options      " << found.logged.terms << "\n\n";
  Table table({Table::Align::right, Table::Align::right, Table::Align::left});
  table.add({"node", "incarnation", "state"});
  for (team::Rank rank = 0; rank < found.logged.team.size(); ++rank) {
    table.add({std::to_string(rank), std::to_string(state.seats[rank].incarnation), state_of(found.logged.team, rank)});
  }
  table.print(std::cout);
}

void print_json(const Found& found) {
  const team::TeamState& state = found.logged.team.state();
  nlohmann::ordered_json nodes = nlohmann::ordered_json::array();
  for (team::Rank rank = 0; rank < found.logged.team.size(); ++rank) {
    nodes.push_back({{"node", rank},
                     {"incarnation", state.seats[rank].incarnation},
                     {"is_present", found.logged.team.is_present(rank)}});
  }
  nlohmann::ordered_json json{{"decisions", found.where},       {"pool", fmt::format("{:016x}", state.team)},
                              {"generation", state.generation}, {"epoch", state.epoch},
                              {"options", found.logged.terms},  {"nodes", nodes}};
  if (found.holder) json["coordinator"] = {{"address", found.holder->address}, {"term", found.holder->term}};
  std::cout << json.dump(2) << '\n';
}

int remove(const std::string& text, bool was_killed) {
  const EtcdAddress address = EtcdAddress::parse(text);
  authority::EtcdStore records(address);
  const authority::OfficeKeys keys(address.pool);
  authority::Office office(records, keys);
  const auto refuse = [&records](const std::string& why, const std::string& remedy) {
    throw Error({"remove the pool in", records.name(), why, remedy});
  };
  const auto before = office.look();
  if (before && !before->is_vacant()) std::this_thread::sleep_for(kManyRenewals);
  const auto now = office.look();
  if (!before || !now) refuse(records.why(), "are the servers of etcd there?");
  if (!now->holder) refuse("there is none", "check the name after the slash");
  if (*now != *before) refuse("it is running", "end it with farside down on all machines");
  if (!now->is_vacant() && !was_killed) {
    refuse(now->holder->address + " coordinated it, and has not ended in order: nodes may live, and need what is there",
           "if all its processes were killed, on all machines, say so with --killed");
  }
  const std::array as_seen{authority::Condition{keys.holder(), authority::encode_holder(*now->holder)},
                           authority::Condition{keys.renewal(), now->renewal}};
  switch (authority::remove_pool(records, keys, as_seen, *now->holder)) {
    case authority::Commit::done: return 0;
    case authority::Commit::conflict: refuse("it was started just now", ""); break;
    case authority::Commit::unknown: refuse(records.why(), "try again"); break;
  }
  return 1;
}

int follow(const std::string& address) {
  (void)net::is_unspecified(address);  // it is an address
  const node::PoolDirectory directory = pool_directory();
  if (!std::filesystem::exists(directory.meeting())) {
    throw Error({"have the nodes of this machine follow", address, "no pool on several machines runs here",
                 "run this command where farside up --join ran"});
  }
  directory.write_meeting(address);
  return 0;
}

void add_status_of(CLI::App& authority, Action& chosen) {
  struct Arguments {
    std::string named;
    bool json = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = authority.add_subcommand("status", "Show what was decided: which node is a member");
  command->add_option("decisions", arguments->named, "A file, or etcd://... [those of this machine]")
      ->type_name("WHERE");
  command->add_flag("--json", arguments->json, "For programs");
  command->callback([arguments, &chosen] {
    chosen = [arguments] {
      const Found found = find(arguments->named);
      arguments->json ? print_json(found) : print(found);
      return 0;
    };
  });
}

void add_start(CLI::App& authority, Action& chosen) {
  struct Arguments {
    node::RebuiltAuthority start;
    std::string from;
    std::string secret;
    std::string silence = silence_text(team::kDefaultSilence);
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = authority.add_subcommand("start", "Coordinate a pool whose first machine is lost");
  command->add_option("--from", arguments->from, "A copy of its decisions; without it, go on after a restart")
      ->type_name("COPY");
  command->add_option("--listen", arguments->start.listen, "Where the nodes are to find it")
      ->type_name("HOST:PORT")
      ->required();
  command->add_option("--secret", arguments->secret, "The secret that all machines know")
      ->type_name("FILE")
      ->required();
  command->add_option("--lost", arguments->start.lost, "Nodes that have ended for certain: those of the lost machine")
      ->type_name("NODE,...")
      ->delimiter(',');
  command->add_option("--silence", arguments->silence, "As for farside up")->type_name("TIME")->capture_default_str();
  command->footer(
      "It stays, and runs no nodes. All nodes that the copy has, but those given by --lost, are waited for: a copy "
      "may\n"
      "lack what was decided last, so that a node which does not come is not taken for dead. Then, on each machine "
      "that\n"
      "is left: farside authority follow HOST:PORT.\n\n"
      "Example, for a pool whose first machine had nodes 0 and 1:\n"
      "  farside authority start --from /run/farside/decisions.copy --lost 0,1 --listen node2:7000 --secret FILE");
  command->callback([arguments, &chosen] {
    chosen = [arguments] {
      if (!arguments->from.empty()) arguments->start.copy = std::filesystem::absolute(arguments->from);
      arguments->start.secret = std::filesystem::absolute(arguments->secret);
      arguments->start.silence = parse_silence(arguments->silence);
      run_rebuilt_authority(pool_directory(), arguments->start);
      return 0;
    };
  });
}

}  // namespace

void add_authority(CLI::App& app, Action& chosen) {
  CLI::App* authority = app.add_subcommand("authority", "Show or move what decides which nodes a pool has");
  authority->require_subcommand(1);
  add_status_of(*authority, chosen);
  add_start(*authority, chosen);

  const auto address = std::make_shared<std::string>();
  CLI::App* to_follow =
      authority->add_subcommand("follow", "Have the nodes of this machine find the coordinator there");
  to_follow->add_option("address", *address, "What farside authority start listens on")
      ->type_name("HOST:PORT")
      ->required();
  to_follow->callback([address, &chosen] { chosen = [address] { return follow(*address); }; });

  struct Removal {
    std::string pool;
    bool was_killed = false;
  };
  const auto removal = std::make_shared<Removal>();
  CLI::App* to_remove = authority->add_subcommand("remove", "Remove what etcd has of a pool that has ended");
  to_remove->add_option("pool", removal->pool, "etcd://HOST:PORT,.../POOL")->type_name("URL")->required();
  to_remove->add_flag("--killed", removal->was_killed, "All its processes were killed, on all machines");
  to_remove->callback(
      [removal, &chosen] { chosen = [removal] { return remove(removal->pool, removal->was_killed); }; });
}

}  // namespace farside::cli
