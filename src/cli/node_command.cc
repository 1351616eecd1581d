#include <charconv>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "cli/cache_arguments.h"
#include "cli/commands.h"
#include "cli/metrics_page.h"
#include "cli/metrics_server.h"
#include "node/node.h"

namespace farside::cli {

namespace {

const std::map<std::string, kv::SyncPolicy> kSyncPolicies{
    {"always", kv::SyncPolicy::always}, {"everysec", kv::SyncPolicy::everysec}, {"no", kv::SyncPolicy::no}};

// As many ports above `first` as the rank is, so that several nodes of a machine can listen.
std::string address_of(const std::string& first, team::Rank rank) {
  const std::size_t digits = first.rfind(':') + 1;
  unsigned port = 0;
  std::from_chars(first.data() + digits, first.data() + first.size(), port);
  return port == 0 ? first : first.substr(0, digits) + std::to_string(port + rank);
}

}  // namespace

// Hidden: farside up starts its nodes with it.
void add_node(CLI::App& app, Action& chosen) {
  struct Arguments {
    std::string pool;
    CacheArguments cache;
    node::KvNodeOptions kv;
    kv::JournalSettings kv_journal;
    std::uint64_t far_bytes = 0;
    std::string metrics;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("node", "Run one node of a pool")->group("");
  command->add_option("--pool", arguments->pool, "The pool's runtime directory")->required();
  arguments->cache.add_to(*command);
  command->add_option("--kv", arguments->kv.bytes, "Bytes for keys and values");
  command->add_option("--kv-copies", arguments->kv.copies, "Of everything");
  command->add_option("--kv-min-copies", arguments->kv.min_copies, "For a write");
  command->add_option("--kv-copy-rate", arguments->kv.copy_rate, "Bytes per second at which a copy is made again");
  command->add_option("--kv-dir", arguments->kv_journal.directory, "Where their journals are");
  command->add_option("--kv-sync", arguments->kv_journal.sync, "When they are on the disk")
      ->transform(CLI::CheckedTransformer(kSyncPolicies));
  command->add_option("--far", arguments->far_bytes, "Bytes to lend");
  command->add_option("--metrics", arguments->metrics, "Where node 0 would serve them");
  command->callback([arguments, &chosen] {
    chosen = [arguments] {
      if (!arguments->kv_journal.directory.empty()) arguments->kv.journal = arguments->kv_journal;
      std::optional<MetricsServer> metrics;
      const auto joined = [&](team::Rank rank) {
        if (arguments->metrics.empty()) return;
        metrics.emplace(address_of(arguments->metrics, rank), metrics_of_this_process);
        std::cout << "node " << rank << ": metrics at http://" << metrics->address() << "/metrics" << std::endl;
      };
      node::run_node(node::PoolDirectory(arguments->pool), arguments->cache.read(1), arguments->kv,
                     arguments->far_bytes, joined);
      return 0;
    };
  });
}

}  // namespace farside::cli
