#include "node/pool/pool_options.h"

#include <filesystem>
#include <span>
#include <utility>

#include "team/member_card.h"

namespace farside::node {

namespace {

constexpr std::size_t kChosen = 3;  // the first word of node_command that the user may have chosen

// The options that are the same on every machine.
std::vector<std::string> common_options(const PoolOptions& options) {
  const cache::CacheOptions& cache = options.cache;
  return {"--cache=" + std::to_string(cache.cache_bytes),
          "--block=" + std::to_string(cache.block_bytes),
          "--groups=" + std::to_string(cache.groups),
          "--singlet-ratio=" + std::to_string(cache.singlet_ratio),
          "--kv=" + std::to_string(options.kv_bytes),
          "--kv-copies=" + std::to_string(options.kv_copies),
          "--kv-min-copies=" + std::to_string(options.kv_min_copies),
          "--kv-copy-rate=" + std::to_string(options.kv_copy_rate),
          "--far=" + std::to_string(options.far_bytes)};
}

}  // namespace

std::string terms(const PoolOptions& options) {
  std::string text = "--nodes=" + std::to_string(options.all_nodes);
  for (const std::string& option : common_options(options)) text += " " + option;
  return text;
}

std::vector<std::string> node_command(const PoolDirectory& directory, const PoolOptions& options) {
  std::vector<std::string> command = {std::filesystem::read_symlink("/proc/self/exe"), "node",
                                      "--pool=" + directory.path().string()};
  for (std::string& option : common_options(options)) command.push_back(std::move(option));
  if (!options.kv_dir.empty())
    command.insert(command.end(), {"--kv-dir=" + options.kv_dir, "--kv-sync=" + options.kv_sync});
  if (!options.metrics.empty()) command.push_back("--metrics=" + options.metrics);
  return command;
}

std::string fixed_options(const PoolDirectory& directory, const PoolOptions& options) {
  std::string text = "farside " + team::MemberCard::of_this_process(0).version + ", -n " +
                     std::to_string(options.nodes) + " --nodes " + std::to_string(options.all_nodes) +
                     " --first-rank " + std::to_string(options.first_rank);
  // Not --join: the pool may have another coordinator by now.
  for (const auto& [name, value] :
       {std::pair{" --listen ", options.listen}, std::pair{" --authority ", options.authority},
        std::pair{" --secret ", options.secret.string()}}) {
    if (!value.empty()) text += name + value;
  }
  const std::vector<std::string> command = node_command(directory, options);
  for (const std::string& word : std::span(command).subspan(kChosen)) text += " " + word;
  return text;
}

}  // namespace farside::node
