#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include "farside/base/error.h"
#include "farside/base/units.h"
#include "farside/cache/node_socket.h"

#include "authority/etcd_address.h"
#include "cli/cache_arguments.h"
#include "cli/commands.h"
#include "cli/metrics_server.h"
#include "cli/silence_argument.h"
#include "net/runtime_dir.h"
#include "net/socket.h"
#include "node/pool/pool.h"
#include "team/liveness.h"

namespace farside::cli {

namespace {

struct UpArguments {
  team::Rank nodes = 1;
  CacheArguments cache;
  std::string kv;
  std::uint32_t kv_copies = 1;
  std::uint32_t kv_min_copies = 1;
  std::string kv_copy_rate;
  std::string kv_dir;
  std::string kv_sync = "everysec";
  std::string far;
  std::string metrics;
  bool foreground = false;
  std::optional<team::Rank> all_nodes;
  std::string listen;
  std::string join;
  std::string authority;
  std::optional<team::Rank> first_rank;
  std::string secret;
  std::string silence = silence_text(team::kDefaultSilence);

  [[nodiscard]] node::PoolOptions read() const {
    const team::Rank all = all_nodes.value_or(nodes);
    const team::Rank first = first_rank.value_or(0);
    if (!join.empty() && !first_rank) {
      throw UsageError({"join the pool at", join,
                        "--first-rank is missing, and its number 0 is a node of the first machine",
                        "give --first-rank the number of nodes on the machines before this one"});
    }
    if (first_rank && join.empty() && authority.empty()) {
      throw UsageError(
          {"use", "--first-rank", "it is for machines that join a pool of others", "give --join or --authority, too"});
    }
    if (!authority.empty() && (net::is_unspecified(listen) || listen.ends_with(":0"))) {
      throw UsageError({"coordinate at", listen, "other machines are told this address, and it names no process",
                        "give --listen an address by which the others reach this machine"});
    }
    if ((all_nodes || !secret.empty()) && listen.empty() && join.empty()) {
      throw UsageError({"use", all_nodes ? "--nodes" : "--secret",
                        "it is for pools of several machines, and neither --listen nor --join is given",
                        "give --listen on the first machine and --join on the others, or -n alone for one machine"});
    }
    if (nodes > all || first > all - nodes) {
      throw UsageError({"start", std::to_string(nodes) + " nodes from number " + std::to_string(first) + " on",
                        "the pool has " + std::to_string(all) + " altogether",
                        "give --nodes the number on all machines"});
    }
    if (kv_copies > all) {
      throw UsageError({"keep two copies of keys and values in", "a pool of one node",
                        "they must be on different nodes", "start more with -n, or leave --kv-copies out"});
    }
    if (kv_min_copies > kv_copies) {
      throw UsageError({"require two copies for a write in", "a pool that keeps one",
                        "--kv-min-copies is above --kv-copies", "give --kv-copies 2, too"});
    }
    expect_metrics_stay_here(metrics, "listen on 127.0.0.1, and let a proxy pass them on");
    return {.nodes = nodes,
            .first_rank = first,
            .all_nodes = all,
            .cache = cache.read(nodes),
            .kv_bytes = kv.empty() ? 0 : parse_bytes(kv, "--kv"),
            .kv_copies = kv_copies,
            .kv_min_copies = kv_min_copies,
            .kv_copy_rate = kv_copy_rate.empty() ? 0 : parse_bytes(kv_copy_rate, "--kv-copy-rate"),
            .kv_dir = kv_dir.empty() ? "" : std::filesystem::absolute(kv_dir),
            .kv_sync = kv_sync,
            .far_bytes = far.empty() ? 0 : parse_bytes(far, "--far"),
            .metrics = metrics,
            .listen = listen,
            .join = join,
            .authority = authority.empty() ? "" : authority::EtcdAddress::parse(authority).text(),
            .secret = secret.empty() ? "" : std::filesystem::absolute(secret),
            .silence = parse_silence(silence)};
  }
};

// Overwrites one line of the terminal; nothing when standard error is something else.
void show_progress(const node::StartProgress& progress, team::Rank nodes) {
  if (::isatty(STDERR_FILENO) == 0) return;
  std::cerr << "\rstarting: " << progress.ready << " of " << nodes << " nodes are ready";
  if (progress.recovered_bytes != 0) std::cerr << "; " << format_bytes(progress.recovered_bytes) << " of journals read";
  std::cerr << (progress.ready == nodes ? "\n" : "  ") << std::flush;
}

// Started without standard input, the pool would take its lock for it.
void open_standard_descriptors() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0) (void)::open("/dev/null", fd == STDIN_FILENO ? O_RDONLY : O_WRONLY);
  }
}

int up(const UpArguments& arguments) {
  open_standard_descriptors();
  node::PoolOptions options = arguments.read();
  const node::PoolDirectory directory(std::filesystem::absolute(net::runtime_dir()));
  if (!arguments.cache.cache)
    options.cache.cache_bytes = cache_bytes_of_running_nodes(directory).value_or(options.cache.cache_bytes);
  FileLock lock = node::prepare_pool(directory, options);
  if (arguments.foreground) return node::run_pool(directory, options);
  node::start_pool(directory, options, std::move(lock),
                   [&](const node::StartProgress& progress) { show_progress(progress, options.nodes); });
  std::cout << "a pool of " << options.nodes << (options.nodes == 1 ? " node" : " nodes") << " is up, with "
            << format_bytes(options.cache.cache_bytes) << " of cache ";
  if (options.kv_bytes != 0) std::cout << "and " << format_bytes(options.kv_bytes) << " for keys and values ";
  if (options.far_bytes != 0) std::cout << "and " << format_bytes(options.far_bytes) << " to lend ";
  std::cout << "each\n";
  return 0;
}

void add_kv(CLI::App& command, UpArguments& arguments) {
  CLI::Option* kv =
      command.add_option("--kv", arguments.kv, "Memory for keys and values on each node; farside kv uses them [none]")
          ->type_name("SIZE");
  CLI::Option* copies = command
                            .add_option("--kv-copies", arguments.kv_copies,
                                        "2: each node keeps a copy of another's, and takes its place when it dies")
                            ->check(CLI::Range(1, 2))
                            ->capture_default_str()
                            ->needs(kv);
  command
      .add_option("--kv-min-copies", arguments.kv_min_copies,
                  "2: while a server has one copy, its keys can be read, and writes are refused")
      ->check(CLI::Range(1, 2))
      ->capture_default_str()
      ->needs(copies);
  command
      .add_option("--kv-copy-rate", arguments.kv_copy_rate,
                  "Bytes per second at which a lost copy is made again [no limit]")
      ->type_name("SIZE")
      ->needs(copies);
  CLI::Option* dir = command.add_option("--kv-dir", arguments.kv_dir, "Keep a journal in DIR and recover from it")
                         ->type_name("DIR")
                         ->needs(kv);
  command
      .add_option("--kv-sync", arguments.kv_sync,
                  "On the disk before it is acknowledged, each second, or when it likes")
      ->check(CLI::IsMember({"always", "everysec", "no"}))
      ->capture_default_str()
      ->needs(dir);
}

void add_several_machines(CLI::App& command, UpArguments& arguments) {
  CLI::Option* cache = command.get_option("--cache");  // what is usual here need not be elsewhere
  CLI::Option* nodes = command.add_option("--nodes", arguments.all_nodes, "How many nodes on all machines")
                           ->type_name("NODES")
                           ->check(CLI::Range(1U, cache::node_socket::kMaxMembers));
  CLI::Option* secret =
      command.add_option("--secret", arguments.secret, "The secret that all machines know")->type_name("FILE");
  CLI::Option* listen = command.add_option("--listen", arguments.listen, "Let nodes of other machines join here")
                            ->type_name("HOST:PORT")
                            ->needs(nodes)
                            ->needs(secret)
                            ->needs(cache);
  command.add_option("--join", arguments.join, "Join the pool whose first machine listens there")
      ->type_name("HOST:PORT")
      ->needs(nodes)
      ->needs(secret)
      ->needs(cache)
      ->excludes(listen);
  command
      .add_option("--authority", arguments.authority,
                  "Keep the pool's decisions in etcd, and let any machine coordinate it: etcd://HOST:PORT,.../POOL")
      ->type_name("URL")
      ->needs(listen);
  command
      .add_option("--silence", arguments.silence,
                  "How long an unresponsive node of another machine is waited for before it counts as dead, on all "
                  "machines")
      ->type_name("TIME")
      ->capture_default_str()
      ->needs(listen);
  command.add_option("--first-rank", arguments.first_rank, "The number of this machine's first node")
      ->type_name("RANK");
}

}  // namespace

void add_up(CLI::App& app, Action& chosen) {
  const auto arguments = std::make_shared<UpArguments>();
  CLI::App* command = app.add_subcommand("up", "Start a pool on this machine");
  command->add_option("-n", arguments->nodes, "How many nodes")
      ->type_name("NODES")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  arguments->cache.add_to(*command);
  add_kv(*command, *arguments);
  command->add_option("--far", arguments->far, "Memory that each node lends to programs that need more [none]")
      ->type_name("SIZE");
  command
      ->add_option("--metrics", arguments->metrics,
                   "Where Prometheus collects metrics: node i at the i-th port from there [nowhere]")
      ->type_name("HOST:PORT");
  command->add_flag("--foreground", arguments->foreground,
                    "Stay, say on standard error what the nodes say, and end the pool with Ctrl-C");
  add_several_machines(*command, *arguments);
  command->footer(
      "The nodes keep what programs read under farside exec, each in its own share of the machine's memory.\n\n"
      "With --kv they also keep keys and values, each a part of them, for farside kv and for programs;\n"
      "with --kv-dir a node that is started again has what it had, and with --kv-copies 2 the standby serves the\n"
      "keys of a dead node. With both each copy has a directory in DIR, and all nodes may die at once.\n\n"
      "With --far they lend memory, 4 MiB at a time, to programs and devices of any machine of the pool "
      "(docs/far.md).\n\n"
      "With --foreground it exits with 0 when it was asked to end and no node had failed for good, else with the code\n"
      "of the first one that had (128 + n when signal n killed it).\n\n"
      "Example:\n  farside up -n 4 --cache 2G --kv 256M --far 4G\n\n"
      "Example of two nodes on each of two machines, after copying the secret from one to the other; the second must\n"
      "join within 30 s. All give the same --cache, since what is usual depends on a machine's memory, the same --kv "
      "and "
      "the\n"
      "same --far. Read SECURITY.md first.\n"
      "  (umask 077; head -c 32 /dev/urandom >pool-secret)\n"
      "  first$ farside up -n 2 --nodes 4 --cache 2G --secret pool-secret --listen first:7777\n"
      "  other$ farside up -n 2 --nodes 4 --cache 2G --secret pool-secret --join first:7777 --first-rank 2");
  command->callback([arguments, &chosen] { chosen = [arguments] { return up(*arguments); }; });
}

}  // namespace farside::cli
