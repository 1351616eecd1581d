// test_pool.h — some nodes' caches in one process, over one imaginary file system that counts what it is asked.
#pragma once

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "farside/cache/cache.h"

#include "cache/cell.h"
#include "cache/geometry.h"
#include "cache/rules.h"
#include "tests/support/in_process_team.h"
#include "tests/support/interposed_channel.h"
#include "tests/support/reduced.h"

namespace farside::test {

inline constexpr std::uint64_t kBlock = 4096;

/// Block `index` of imaginary file `number`, which is long enough for it.
inline cache::BlockKey key_of(std::uint64_t number, std::uint64_t index = 0) {
  return {{.file_system = 1, .inode = number, .bytes = 1U << 20U, .modified_ns = 5, .changed_ns = 6}, index};
}

/// Every word of a block is told by its key, so that bytes of another block, or a mixture, show.
inline std::uint64_t word_of(const cache::BlockKey& key, std::uint64_t position) {
  return mix(cache::block_id(key) + position);
}

class CountingSource final : public cache::BlockSource {
 public:
  std::uint64_t load(const cache::BlockKey& key, LocalSpan into) override {
    ++loads;
    if (on_load) on_load(key);
    if (fail) return kFailed;
    for (std::uint64_t at = 0; at < block_bytes; at += 8) {
      const std::uint64_t word = word_of(key, at);
      std::memcpy(into.adapter_data() + at, &word, 8);
    }
    return block_bytes;
  }

  std::uint64_t block_bytes = kBlock;

  std::atomic<int> loads = 0;
  std::atomic<bool> fail = false;
  std::function<void(const cache::BlockKey&)> on_load;
};

struct Node {
  std::unique_ptr<InProcessTeam> team;
  std::unique_ptr<cache::Cache> cache;
  std::unique_ptr<InterposedChannel> channel;

  [[nodiscard]] Deadline soon() const { return team->fabric().in(extended(std::chrono::seconds(20))); }
};

class TestPool {
 public:
  explicit TestPool(team::Rank size, cache::CacheOptions wanted = {}, const cache::CacheRules& rules = {})
      : options(wanted), nodes(size) {
    if (options.cache_bytes == cache::CacheOptions{}.cache_bytes) options.cache_bytes = 16 * kBlock;
    if (options.block_bytes == cache::CacheOptions{}.block_bytes) options.block_bytes = kBlock;
    source.block_bytes = options.block_bytes;
    auto teams = make_teams(size);
    on_all_ranks(size, [&](team::Rank rank) {
      nodes[rank].team = std::move(teams[rank]);
      nodes[rank].cache = std::make_unique<cache::Cache>(*nodes[rank].team, options, rules);
      nodes[rank].channel = std::make_unique<InterposedChannel>(nodes[rank].team->fabric().open_channel());
    });
  }
  ~TestPool() {
    for (Node& node : nodes) {
      node.channel.reset();
      node.cache.reset();
    }
  }

  cache::Acquired acquire(team::Rank rank, const cache::BlockKey& key) {
    return nodes[rank].cache->acquire(*nodes[rank].channel, key, source, nodes[rank].soon());
  }
  /// Whether rank can have the block, and its bytes are right.
  [[nodiscard]] bool reads(team::Rank rank, const cache::BlockKey& key) {
    const cache::Acquired acquired = acquire(rank, key);
    return acquired.answer == cache::Acquired::Answer::here && holds(rank, acquired, key);
  }
  [[nodiscard]] bool holds(team::Rank rank, const cache::Acquired& place, const cache::BlockKey& key) const {
    const cache::CacheLayout& layout = nodes[rank].cache->layout();
    std::vector<std::uint64_t> words(kBlock / 8);
    nodes[rank].cache->region().copy_out(
        layout.slots_offset + place.slot * cache::slot_stride(kBlock) + sizeof(cache::SlotHeader),
        std::as_writable_bytes(std::span(words)));
    for (std::uint64_t at = 0; at < kBlock; at += 8) {
      if (words[at / 8] != word_of(key, at)) return false;
    }
    return true;
  }

  /// What the directory says of the block to group 0, as any node can read it.
  [[nodiscard]] cache::Cell cell_of(const cache::BlockKey& key) const {
    const cache::Geometry geometry(options, static_cast<team::Rank>(nodes.size()));
    const auto [home, bucket] = geometry.bucket_of(cache::block_id(key));
    const Region& region = nodes[home].cache->region();
    for (std::uint32_t row = 0; row < cache::Geometry::kBucketRows; ++row) {
      const std::uint64_t offset = bucket + row * geometry.row_bytes();
      if (region.word<AtomicWord>(offset).load() != cache::block_id(key)) continue;
      return cache::Cell::from_word(region.word<AtomicWord>(offset + 8).load());
    }
    return {};
  }

  cache::CacheOptions options;
  std::vector<Node> nodes;
  CountingSource source;
};

}  // namespace farside::test
