// Every schedule of the cache's small cases: two or three nodes that each take one step of the protocol, blocks of two
// words. Each case is also run with a rule broken, to show that it can tell.
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache/alternative_directory.h"
#include "cache/directory.h"
#include "cache/discard.h"
#include "cache/slot_index.h"
#include "cache/slots.h"
#include "scenario/imaginary_files.h"
#include "tests/sim/fabric/small_program.h"
#include "tests/sim/seeds.h"

namespace farside::sim {
namespace {

using cache::BlockKey;
using cache::CacheRules;
using team::Rank;

constexpr std::uint64_t kWords = 2;  // of a block

// The parts of a node's cache.
struct Parts {
  Parts(SimTeam& team, const cache::Geometry& geometry, const CacheRules& rules)
      : region(team.allocate("cache", geometry.layout().region_bytes)),
        peers(team, *region),
        directory(geometry, peers, team.fabric(), rules),
        alternative(geometry, peers, geometry.group_of(team.rank())),
        slots(geometry, *region, peers, rules),
        slot_index(geometry.layout(), 0, cache::HostIndex(geometry.layout(), region->local())),
        discarder(team, geometry, directory, alternative, slots, slot_index, kLong, rules),
        channel(team.fabric().open_channel()),
        fabric(team.fabric()) {}

  [[nodiscard]] Deadline soon() const { return fabric.in(std::chrono::seconds(1)); }
  [[nodiscard]] LocalWord<ControlWord> data(const cache::Geometry& geometry, std::uint32_t slot,
                                            std::uint64_t word) const {
    return region->local().word<ControlWord>(geometry.slot_offset(slot) + sizeof(cache::SlotHeader) + 8 * word);
  }
  void fill(const cache::Geometry& geometry, std::uint32_t slot, const BlockKey& key, std::uint64_t token) {
    for (std::uint64_t word = 0; word < kWords; ++word) data(geometry, slot, word).store(scenario::word_of(key, word));
    slots.publish(*channel, slot, key, kWords * 8, token);
  }
  [[nodiscard]] bool holds(const cache::Geometry& geometry, std::uint32_t slot, const BlockKey& key) const {
    for (std::uint64_t word = 0; word < kWords; ++word) {
      if (data(geometry, slot, word).load() != scenario::word_of(key, word)) return false;
    }
    return true;
  }

  std::unique_ptr<team::SymmetricRegion> region;
  cache::Peers peers;
  cache::Directory directory;
  cache::AlternativeDirectory alternative;
  cache::Slots slots;
  cache::SlotIndex slot_index;
  cache::Discarder discarder;
  std::unique_ptr<Channel> channel;
  Fabric& fabric;
};

class Nodes {
 public:
  explicit Nodes(Rank count, const CacheRules& rules = {}, std::uint32_t groups = 1)
      : geometry({.cache_bytes = 2 * scenario::kBlockBytes,
                  .block_bytes = scenario::kBlockBytes,
                  .groups = groups,
                  .singlet_ratio = 0},
                 count),
        rules_(rules),
        small_(count, harsh()),
        parts(count) {}

  void run(Chooser& chooser, const std::function<void(Rank)>& set_up, const std::vector<std::function<void()>>& steps) {
    small_.run(
        chooser,
        [&](Rank rank) {
          parts[rank] = std::make_unique<Parts>(small_.world.team(rank), geometry, rules_);
          set_up(rank);
          parts[rank]->channel->local_fence();
        },
        steps);
  }
  /// Afterwards, when nothing is under way.
  void look(const std::function<void(Parts&)>& at) {
    small_.world.on(0, [&] { at(*parts[0]); });
    EXPECT_TRUE(small_.world.run(kLong));
  }

  const cache::Geometry geometry;

 private:
  const CacheRules rules_;
  Small small_;

 public:
  std::vector<std::unique_ptr<Parts>> parts;  // which end before their world
};

const BlockKey kX = scenario::key_of(0, kWords);
const BlockKey kY = scenario::key_of(1, kWords);

constexpr std::uint64_t kToken = (std::uint64_t{1} << 48U) + 1;  // of the first life of a node

// Node 1 copies x out of a slot of node 0, which recycles that for `others` in turn.
Exploration copy_against_recycle(const std::vector<BlockKey>& others, const CacheRules& rules) {
  return explore(
      [&](Chooser& chooser) -> std::optional<std::string> {
        Nodes nodes(2, rules);
        bool wrong = false;
        nodes.run(chooser,
                  [&](Rank rank) {
                    if (rank == 0) nodes.parts[0]->fill(nodes.geometry, 0, kX, kToken);
                  },
                  {[&] {
                     Parts& owner = *nodes.parts[0];
                     std::uint64_t token = kToken;
                     for (const BlockKey& other : others) {
                       owner.slots.retract(*owner.channel, 0);
                       owner.fill(nodes.geometry, 0, other, ++token);
                     }
                     owner.channel->local_fence();
                   },
                   [&] {
                     Parts& reader = *nodes.parts[1];
                     const bool copied = reader.slots.copy(*reader.channel, kX, {0, 0}, 0, reader.soon());
                     wrong = copied && !reader.holds(nodes.geometry, 0, kX);
                   }});
        return wrong ? std::optional<std::string>("other bytes than those of x") : std::nullopt;
      },
      kMaxSchedules);
}

void expect_never(const Exploration& exploration) {
  EXPECT_FALSE(exploration.violation) << *exploration.violation;
  EXPECT_TRUE(exploration.complete) << "after " << exploration.schedules << " schedules";
  EXPECT_GE(exploration.schedules, 10u);
  testing::Test::RecordProperty("schedules", std::to_string(exploration.schedules));
}

TEST(ExploreCache, ACopyIsRightHoweverItsSlotIsRecycled) { expect_never(copy_against_recycle({kY}, {})); }

TEST(ExploreCache, ACopyIsRightHoweverItsSlotIsRecycledAndFilledWithTheSameBlockAgain) {
  expect_never(copy_against_recycle({kY, kX}, {}));
}

// The slot is recycled for another block and back (the paper's first case, 2.2.1).
TEST(ExploreCacheRules, FindsTheCopyThatComparesIdsOnly) {
  EXPECT_TRUE(copy_against_recycle({kY, kX}, {.compares_tokens = false, .compares_keys = false}).violation);
}

// The slot is recycled before the first READ (the paper's second case).
TEST(ExploreCacheRules, FindsTheCopyThatComparesTokensOnly) {
  EXPECT_TRUE(copy_against_recycle({kY}, {.compares_ids = false, .compares_keys = false}).violation);
}

// The id of one READ is of one life of the slot and its token of the next, and so are those of the other READ.
TEST(ExploreCacheRules, FindsTheCopyThatComparesIdsAndTokensOnly) {
  EXPECT_TRUE(copy_against_recycle({kY, kX}, {.compares_keys = false}).violation);
}

TEST(ExploreCacheRules, FindsTheCopyWithoutTheSecondHeader) {
  EXPECT_TRUE(copy_against_recycle({kY}, {.reads_header_again = false}).violation);
}

// Node 1 copies x out of a slot that node 0 retracts in the first READ of its header, begins to fill with y in the READ
// of the bytes, and fills with x after all in the second READ of its header. At random, since there are too many
// schedules when words are split.
std::optional<std::string> copy_of_split_words(std::uint64_t seeds, const CacheRules& rules) {
  return first_violation(seeds, [&](std::uint64_t seed) -> std::optional<std::string> {
    Network network = harsh(4);
    network.lands_late = true;  // half of what the reader posts, so that the owner goes on in between
    network.slow_process = 1;
    network.long_latency = std::chrono::microseconds(20);
    World world(seed, 2, network);
    const cache::Geometry geometry({.cache_bytes = 2 * scenario::kBlockBytes,
                                    .block_bytes = scenario::kBlockBytes,
                                    .groups = 1,
                                    .singlet_ratio = 0},
                                   2);
    std::array<std::unique_ptr<Parts>, 2> parts;
    int reached = 0;  // of the three
    bool wrong = false;
    world.fabric(1).before_each([&](const Operation* operation) {
      if (parts[1] == nullptr || operation == nullptr) return;
      const bool is_header = operation->bytes <= 16;
      if (reached < 3 && is_header == (reached != 1)) ++reached;
    });
    world.on(0, [&] {
      parts[0] = std::make_unique<Parts>(world.team(0), geometry, rules);
      Parts& owner = *parts[0];
      const auto await = [&](int step) {
        while (reached < step) owner.fabric.sleep(std::chrono::nanoseconds(100));
        owner.fabric.sleep(world.scheduler().up_to(std::chrono::microseconds(2)));
      };
      owner.fill(geometry, 0, kX, kToken);
      owner.channel->local_fence();
      await(1);
      owner.slots.retract(*owner.channel, 0);
      await(2);
      for (std::uint64_t word = 0; word < kWords; ++word)
        owner.data(geometry, 0, word).store(scenario::word_of(kY, word));
      owner.channel->local_fence();
      await(3);
      owner.fill(geometry, 0, kX, kToken + 1);
    });
    world.on(1, [&] {
      auto mine = std::make_unique<Parts>(world.team(1), geometry, rules);
      mine->fabric.sleep(std::chrono::microseconds(100));
      parts[1] = std::move(mine);
      Parts& reader = *parts[1];
      const bool copied = reader.slots.copy(*reader.channel, kX, {0, 0}, 0, reader.soon());
      wrong = copied && !reader.holds(geometry, 0, kX);
      reached = 3;
    });
    if (!world.run(kLong)) return "it did not end";
    return wrong ? std::optional<std::string>("other bytes than those of x") : std::nullopt;
  });
}

// Half of one token and half of the 0 before the next one are found twice.
TEST(ExploreCache, ACopyIsRightThoughWordsOfBulkTransfersAreSplit) {
  EXPECT_EQ(copy_of_split_words(5'000, {}), std::nullopt);
}
TEST(ExploreCacheRules, FindsTheCopyThatReadsIdAndTokenTogether) {
  EXPECT_TRUE(noticed(copy_of_split_words(50'000, {.reads_header_words_alone = false})));
}

// Node 1 copies x out of a slot that node 0 recycles, and publishes it; node 2 copies it from there.
TEST(ExploreCache, ACopyOfACopyIsRightHoweverTheFirstSlotIsRecycled) {
  expect_never(explore(
      [&](Chooser& chooser) -> std::optional<std::string> {
        Nodes nodes(3);
        bool wrong = false;
        const auto copy = [&](Rank reader, Rank from) {
          Parts& me = *nodes.parts[reader];
          return me.slots.copy(*me.channel, kX, {from, 0}, 0, me.soon());
        };
        nodes.run(chooser,
                  [&](Rank rank) {
                    if (rank == 0) nodes.parts[0]->fill(nodes.geometry, 0, kX, 1);
                  },
                  {[&] {
                     Parts& owner = *nodes.parts[0];
                     owner.slots.retract(*owner.channel, 0);
                     owner.fill(nodes.geometry, 0, kY, 2);
                     owner.channel->local_fence();
                   },
                   [&] {
                     Parts& me = *nodes.parts[1];
                     if (copy(1, 0)) me.slots.publish(*me.channel, 0, kX, kWords * 8, 1);
                     me.channel->local_fence();
                   },
                   [&] { wrong = copy(2, 1) && !nodes.parts[2]->holds(nodes.geometry, 0, kX); }});
        return wrong ? std::optional<std::string>("other bytes than those of x") : std::nullopt;
      },
      kMaxSchedules));
}

// Blocks whose bucket is that of block 0, which is one of them.
std::vector<BlockKey> blocks_of_one_bucket(const cache::Geometry& geometry, std::size_t count) {
  const auto home = geometry.bucket_of(cache::block_id(kX));
  std::vector<BlockKey> found;
  for (std::uint64_t block = 0; found.size() < count; ++block) {
    const auto other = geometry.bucket_of(cache::block_id(scenario::key_of(block, kWords)));
    if (other.rank == home.rank && other.offset == home.offset) found.push_back(scenario::key_of(block, kWords));
  }
  return found;
}

// Two nodes want to load the same block, of which no node has heard.
Exploration two_loaders(const CacheRules& rules) {
  return explore(
      [&](Chooser& chooser) -> std::optional<std::string> {
        Nodes nodes(2, rules);
        int loaders = 0;
        const auto load = [&](Rank rank) {
          Parts& me = *nodes.parts[rank];
          auto row = me.directory.find_or_claim(*me.channel, cache::block_id(kX), me.soon());
          if (!row || row->cell(0).state != cache::Cell::State::invalid) return;
          if (me.directory.change(*me.channel, *row, 0, row->cell(0).loading_at({rank, 0}), me.soon())) ++loaders;
        };
        nodes.run(chooser, [](Rank) {}, {[&] { load(0); }, [&] { load(1); }});
        return loaders == 1 ? std::nullopt : std::optional(std::to_string(loaders) + " loaders");
      },
      kMaxSchedules);
}

TEST(ExploreCache, OneOfTwoLoadersLoads) { expect_never(two_loaders({})); }

TEST(ExploreCacheRules, FindsCellsThatAreOverwritten) {
  EXPECT_TRUE(two_loaders({.cells_are_exchanged = false}).violation);
}

// A row that bears a block of which no node has a copy: one node claims it for another block while a second uses it for
// the old one, and then looks for it again. A claim that is given up hides the row for a while.
Exploration claim_against_use(const CacheRules& rules) {
  return explore(
      [&](Chooser& chooser) -> std::optional<std::string> {
        Nodes nodes(2, rules);
        const auto blocks = blocks_of_one_bucket(nodes.geometry, 2);
        const cache::BlockId old = cache::block_id(blocks[0]);
        std::optional<cache::Row> row;
        std::optional<cache::Row> found_again;
        bool used = false;
        nodes.run(chooser,
                  [&](Rank rank) {
                    Parts& me = *nodes.parts[rank];
                    if (rank == 0) row = me.directory.find_or_claim(*me.channel, old, me.soon());
                  },
                  {[&] {
                     Parts& me = *nodes.parts[0];
                     (void)me.directory.find_or_claim(*me.channel, cache::block_id(blocks[1]), me.soon());
                   },
                   [&] {
                     Parts& me = *nodes.parts[1];
                     used = me.directory.change(*me.channel, *row, 0, row->cell(0).loading_at({1, 0}), me.soon());
                     if (used) found_again = me.directory.find_or_claim(*me.channel, old, me.soon());
                   }});
        if (found_again && found_again->offset != row->offset) return "two rows of one block";
        // What the row says now, and whether the use that succeeded can be found.
        std::optional<std::string> wrong;
        nodes.look([&](Parts& me) {
          const auto found = me.directory.find(*me.channel, old, me.soon());
          const bool is_there = found && found->cell(0).state == cache::Cell::State::loading;
          if (used != is_there) wrong = used ? "a cell in use that no node finds" : "a cell that no node uses";
        });
        return wrong;
      },
      kMaxSchedules);
}

TEST(ExploreCache, AClaimNeverTakesACellInUse) { expect_never(claim_against_use({})); }

TEST(ExploreCacheRules, FindsTheClaimThatDoesNotLookAgain) {
  EXPECT_TRUE(claim_against_use({.claims_look_again = false}).violation);
}

TEST(ExploreCacheRules, FindsTheClaimBesideAnother) {
  EXPECT_EQ(claim_against_use({.claims_are_alone = false}).violation, "two rows of one block");
}

// A node hands its cell to the alternative while that drops its copy.
Exploration discard_against_hand_over(const CacheRules& rules) {
  return explore(
      [&](Chooser& chooser) -> std::optional<std::string> {
        Nodes nodes(2, rules);
        const auto set_up = [&](Rank rank) {
          Parts& me = *nodes.parts[rank];
          (void)me.slot_index.look(kX);
          const auto slot = me.slot_index.take_free();
          while (me.slot_index.take_free()) {
          }
          me.fill(nodes.geometry, *slot, kX, 1);
          me.slot_index.arrived(kX, {*slot, 1}, me.fabric.now());
          if (rank != 0) return;
          auto row = me.directory.find_or_claim(*me.channel, cache::block_id(kX), me.soon());
          EXPECT_TRUE(me.directory.change(*me.channel, *row, 0, row->cell(0).loaded_at({0, *slot}), me.soon()));
          me.alternative.record(*me.channel, cache::block_id(kX), {1, *slot}, me.soon());
        };
        const auto drop = [&](Rank rank) {
          Parts& me = *nodes.parts[rank];
          EXPECT_TRUE(me.discarder.take_slot(*me.channel, me.soon()));
        };
        nodes.run(chooser, set_up, {[&] { drop(0); }, [&] { drop(1); }});
        std::optional<std::string> wrong;
        nodes.look([&](Parts& me) {
          const auto row = me.directory.find(*me.channel, cache::block_id(kX), me.soon());
          if (row && row->cell(0).state != cache::Cell::State::invalid) wrong = "a cell names a dropped copy";
        });
        return wrong;
      },
      kMaxSchedules);
}

TEST(ExploreCache, NoCellNamesACopyThatWasDroppedWhileItWasHandedOver) { expect_never(discard_against_hand_over({})); }

TEST(ExploreCacheRules, FindsTheDiscardThatDoesNotLookAgain) {
  EXPECT_TRUE(discard_against_hand_over({.discard_looks_again = false}).violation);
}

}  // namespace
}  // namespace farside::sim
