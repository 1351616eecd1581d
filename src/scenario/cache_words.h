// cache_words.h — what a trace calls the words of a node's memory.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "cache/geometry.h"

namespace farside::scenario {

class CacheWords {
 public:
  CacheWords(const cache::CacheOptions& options, team::Rank nodes, std::uint64_t blocks);

  /// "slot 1 token = 0x1000000000003", "bucket 0 row 2 cell of group 1 = loaded at node 2 slot 0, change 7".
  [[nodiscard]] std::string operator()(std::uint64_t offset, std::uint64_t value) const;
  /// The same without the value.
  [[nodiscard]] std::string place(std::uint64_t offset) const;

 private:
  [[nodiscard]] std::string in_slot(std::uint64_t offset, std::uint64_t value) const;
  [[nodiscard]] std::string in_bucket(std::uint64_t offset, std::uint64_t value) const;
  [[nodiscard]] std::string id(std::uint64_t value) const;

  cache::Geometry geometry_;
  std::map<std::uint64_t, std::string> names_;  // of values that only one block has
};

}  // namespace farside::scenario
