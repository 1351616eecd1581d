#include "cli/cache_arguments.h"

#include "farside/base/units.h"

#include "node/pool/pool.h"

namespace farside::cli {

void CacheArguments::add_to(CLI::App& command) {
  command.add_option("--cache", cache, "Memory for blocks on each node [1G, or less where memory is small]")
      ->type_name("SIZE");
  command.add_option("--block", block, "How much is loaded at once: a power of two from 4K to 64M")
      ->type_name("SIZE")
      ->capture_default_str();
  command
      .add_option("--groups", groups, "Into how many groups the nodes are divided; each block is read once per group")
      ->type_name("G")
      ->capture_default_str();
  command
      .add_option("--singlet-ratio", singlet_ratio,
                  "Which share of a node's memory may hold blocks that no other node has and no program uses")
      ->type_name("R")
      ->capture_default_str();
}

cache::CacheOptions CacheArguments::read(team::Rank nodes) const {
  cache::CacheOptions options;
  options.block_bytes = parse_bytes(block, "--block");
  options.groups = groups;
  options.singlet_ratio = singlet_ratio;
  options.cache_bytes = cache ? parse_bytes(*cache, "--cache") : node::default_cache_bytes(nodes, options.block_bytes);
  return options;
}

}  // namespace farside::cli
