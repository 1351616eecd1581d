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
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("node", "Run one node of a pool")->group("");
  command->add_option("--pool", arguments->pool, "The pool's runtime directory")->required();
  arguments->cache.add_to(*command);
  command->callback([arguments, &chosen] {
    chosen = [arguments] {
      run_node(PoolDirectory(arguments->pool), arguments->cache.read(1));
      return 0;
    };
  });
}

}  // namespace farside::cli
