#include "node/node.h"

#include <memory>
#include <string>

#include "cli/cache_arguments.h"
#include "cli/commands.h"

namespace farside::cli {

// Hidden: farside up starts its nodes with it.
void add_node(CLI::App& app, Action& chosen) {
  struct Arguments {
    std::string pool;
    CacheArguments cache;
    std::uint64_t kv_bytes = 0;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("node", "Run one node of a pool")->group("");
  command->add_option("--pool", arguments->pool, "The pool's runtime directory")->required();
  arguments->cache.add_to(*command);
  command->add_option("--kv", arguments->kv_bytes, "Bytes for keys and values");
  command->callback([arguments, &chosen] {
    chosen = [arguments] {
      run_node(PoolDirectory(arguments->pool), arguments->cache.read(1), arguments->kv_bytes);
      return 0;
    };
  });
}

}  // namespace farside::cli
