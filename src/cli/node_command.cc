#include <map>
#include <memory>
#include <optional>
#include <string>

#include "cli/cache_arguments.h"
#include "cli/commands.h"
#include "node/node.h"

namespace farside::cli {

namespace {

const std::map<std::string, kv::SyncPolicy> kSyncPolicies{
    {"always", kv::SyncPolicy::always}, {"everysec", kv::SyncPolicy::everysec}, {"no", kv::SyncPolicy::no}};

}  // namespace

// Hidden: farside up starts its nodes with it.
void add_node(CLI::App& app, Action& chosen) {
  struct Arguments {
    std::string pool;
    CacheArguments cache;
    KvNodeOptions kv;
    kv::JournalSettings kv_journal;
    std::uint64_t far_bytes = 0;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("node", "Run one node of a pool")->group("");
  command->add_option("--pool", arguments->pool, "The pool's runtime directory")->required();
  arguments->cache.add_to(*command);
  command->add_option("--kv", arguments->kv.bytes, "Bytes for keys and values");
  command->add_option("--kv-copies", arguments->kv.copies, "Of everything");
  command->add_option("--kv-dir", arguments->kv_journal.directory, "Where their journals are");
  command->add_option("--kv-sync", arguments->kv_journal.sync, "When they are on the disk")
      ->transform(CLI::CheckedTransformer(kSyncPolicies));
  command->add_option("--far", arguments->far_bytes, "Bytes to lend");
  command->callback([arguments, &chosen] {
    chosen = [arguments] {
      if (!arguments->kv_journal.directory.empty()) arguments->kv.journal = arguments->kv_journal;
      run_node(PoolDirectory(arguments->pool), arguments->cache.read(1), arguments->kv, arguments->far_bytes);
      return 0;
    };
  });
}

}  // namespace farside::cli
