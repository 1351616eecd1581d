// cache_arguments.h — the options of a pool's cache, as `farside up` and `farside node` take them.
//
// A new one must also be handed on in `common_options` (node/pool_options.cc); otherwise the nodes run with its
// default.
#pragma once

#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "farside/cache/cache.h"

namespace farside::cli {

struct CacheArguments {
  std::optional<std::string> cache;
  std::string block = "1M";
  std::uint32_t groups = 1;
  double singlet_ratio = 0.5;

  void add_to(CLI::App& command);
  /// Throws UsageError when a size is not one.
  [[nodiscard]] cache::CacheOptions read(team::Rank nodes) const;
};

}  // namespace farside::cli
