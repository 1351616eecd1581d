// Two nodes at the same place at the same time: each protocol step with the other node exactly in between.
//
// Every scenario is also run against a broken variant, to show that it can tell.
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/alternative_directory.h"
#include "cache/directory.h"
#include "cache/slots.h"
#include "tests/cache/test_pool.h"

namespace farside::test {
namespace {

using cache::BlockId;
using cache::BlockKey;

constexpr std::uint64_t kFirstToken = 1;

// The parts of two nodes' caches, to be driven step by step.
class Crossing : public testing::Test {
 protected:
  struct Side {
    Side(InProcessTeam& team, const cache::Geometry& geometry)
        : region(team.allocate("cache", geometry.layout().region_bytes)),
          peers(team, *region),
          directory(geometry, peers, team.fabric()),
          slots(geometry, *region, peers),
          channel(team.fabric().open_channel()) {}

    void fill(std::uint32_t slot, const BlockKey& key, std::uint64_t token) {
      slots.retract(channel, slot);
      for (std::uint64_t at = 0; at < kBlock; at += 8) {
        const std::uint64_t word = word_of(key, at);
        std::memcpy(slots.data(slot).adapter_data() + at, &word, 8);
      }
      slots.publish(channel, slot, key, kBlock, token);
    }
    [[nodiscard]] bool has_bytes_of(const BlockKey& key, std::uint32_t slot) const {
      for (std::uint64_t at = 0; at < kBlock; at += 8) {
        const std::uint64_t word = word_of(key, at);
        if (std::memcmp(slots.data(slot).adapter_data() + at, &word, 8) != 0) return false;
      }
      return true;
    }

    std::unique_ptr<team::SymmetricRegion> region;
    cache::Peers peers;
    cache::Directory directory;
    cache::Slots slots;
    InterposedChannel channel;
  };

  Crossing() {
    on_all_ranks(2, [&](team::Rank rank) { sides_[rank] = std::make_unique<Side>(*teams_[rank], geometry_); });
  }
  ~Crossing() override {
    for (auto& side : sides_) side->channel.before_each({});
  }

  [[nodiscard]] Deadline soon() { return teams_[0]->fabric().in(std::chrono::seconds(20)); }

  cache::Geometry geometry_{{.cache_bytes = 8 * kBlock, .block_bytes = kBlock, .groups = 2}, 2};
  std::vector<std::unique_ptr<InProcessTeam>> teams_ = make_teams(2);
  std::array<std::unique_ptr<Side>, 2> sides_;
  const BlockKey x_ = key_of(1);
  const BlockKey y_ = key_of(2);
};

// ---- Copying a block that is recycled under the reader's hands ----

using Copy = std::function<bool(Channel&, const BlockKey&)>;

class Copying : public Crossing {
 protected:
  // Node 1 copies x out of slot 0 of node 0 while that slot is recycled before the READs whose numbers are given, to y
  // and x in turn. True when what the copy yielded may be used: it failed, or the bytes are x.
  bool is_safe(const Copy& copy, std::vector<int> recycled_before) {
    Side& owner = *sides_[0];
    owner.fill(0, x_, kFirstToken);
    std::uint64_t token = kFirstToken;
    int reads = 0;
    sides_[1]->channel.before_each([&](const Operation&) {
      if (std::count(recycled_before.begin(), recycled_before.end(), reads++) == 0) return;
      ++token;
      owner.fill(0, token % 2 == 0 ? y_ : x_, token);
    });
    const bool copied = copy(sides_[1]->channel, x_);
    sides_[1]->channel.before_each({});
    return !copied || sides_[1]->has_bytes_of(x_, 0);
  }

  bool faithful(Channel& channel, const BlockKey& key) {
    return sides_[1]->slots.copy(channel, key, {0, 0}, 0, soon());
  }

  struct Header {
    std::uint64_t id, token;
  };
  Header header(Channel& channel) {
    Header read{};
    (void)channel.read(LocalSpan(read), sides_[1]->region->of(0).span(geometry_.slot_offset(0), sizeof read), soon());
    return read;
  }
  void data(Channel& channel) {
    const RemoteSpan from = sides_[1]->region->of(0).span(geometry_.slot_offset(0) + sizeof(cache::SlotHeader), kBlock);
    (void)channel.read(sides_[1]->slots.data(0), from, soon());
  }
  bool without_second_header(Channel& channel, const BlockKey& key) {
    const Header before = header(channel);
    data(channel);
    return before.id == cache::block_id(key) && before.token != 0;
  }
  bool comparing_ids_only(Channel& channel, const BlockKey& key) {
    const Header before = header(channel);
    data(channel);
    return before.id == cache::block_id(key) && header(channel).id == before.id;
  }
  bool comparing_tokens_only(Channel& channel, const BlockKey&) {
    const Header before = header(channel);
    data(channel);
    return before.token != 0 && header(channel).token == before.token;
  }
};

TEST_F(Copying, YieldsTheBlockWithoutInterference) {
  sides_[0]->fill(3, x_, kFirstToken);
  EXPECT_TRUE(sides_[1]->slots.copy(sides_[1]->channel, x_, {0, 3}, 5, soon()));
  EXPECT_TRUE(sides_[1]->has_bytes_of(x_, 5));
}

TEST_F(Copying, NeverYieldsAnotherBlockWhereverTheSlotIsRecycled) {
  const Copy copy = [this](Channel& channel, const BlockKey& key) { return faithful(channel, key); };
  for (unsigned subset = 0; subset < 8; ++subset) {
    std::vector<int> before;
    for (int read = 0; read < 3; ++read) {
      if ((subset >> read & 1U) != 0) before.push_back(read);
    }
    EXPECT_TRUE(is_safe(copy, before)) << "recycled before the READs of subset " << subset;
  }
}

// The slot is recycled for another block and then for the same one again (the paper's first case, 2.2.1).
TEST_F(Copying, CatchesAReaderThatComparesIdsOnly) {
  EXPECT_FALSE(is_safe([this](Channel& c, const BlockKey& k) { return comparing_ids_only(c, k); }, {1, 2}));
}

// The slot was recycled between the look into the directory and the first READ (the paper's second case).
TEST_F(Copying, CatchesAReaderThatComparesTokensOnly) {
  EXPECT_FALSE(is_safe([this](Channel& c, const BlockKey& k) { return comparing_tokens_only(c, k); }, {0}));
}

TEST_F(Copying, CatchesAReaderWithoutTheSecondHeader) {
  EXPECT_FALSE(is_safe([this](Channel& c, const BlockKey& k) { return without_second_header(c, k); }, {1}));
}

TEST_F(Copying, RefusesAPlaceThatIsOutsideThePool) {
  EXPECT_FALSE(sides_[1]->slots.copy(sides_[1]->channel, x_, {7, 0}, 0, soon()));
  EXPECT_FALSE(sides_[1]->slots.copy(sides_[1]->channel, x_, {0, 1U << 20U}, 0, soon()));
}

// ---- Claiming rows and changing cells ----

class Claiming : public Crossing {
 protected:
  // A block whose bucket is that of `like`.
  BlockId neighbour_of(BlockId like, int which) {
    for (std::uint64_t number = 100;; ++number) {
      const BlockId id = cache::block_id(key_of(number));
      const bool same = geometry_.bucket_of(id).rank == geometry_.bucket_of(like).rank &&
                        geometry_.bucket_of(id).offset == geometry_.bucket_of(like).offset;
      if (same && id != like && which-- == 0) return id;
    }
  }
  // Lets node 1 act before the `turn`-th operation of node 0, once.
  void before_operation(int turn, std::function<void()> act) {
    sides_[0]->channel.before_each([left = std::make_shared<int>(turn), act = std::move(act)](const Operation&) {
      if ((*left)-- == 0) act();
    });
  }
  std::optional<cache::Row> find(int side, BlockId id) {
    return sides_[side]->directory.find(sides_[side]->channel, id, soon());
  }
  std::optional<cache::Row> claim(int side, BlockId id) {
    return sides_[side]->directory.find_or_claim(sides_[side]->channel, id, soon());
  }

  int rows_of(BlockId id) {
    const auto [home, offset] = geometry_.bucket_of(id);
    int found = 0;
    for (std::uint64_t row = 0; row < cache::Geometry::kBucketRows; ++row) {
      const auto word = sides_[1]->region->of(home).word<AtomicWord>(offset + row * geometry_.row_bytes());
      if (sides_[1]->channel.load(word, soon()).value == id) ++found;
    }
    return found;
  }

  const BlockId id_ = cache::block_id(x_);
};

// Wherever a second claimer comes in between, both end with the same row: else each group could load the block twice.
TEST_F(Claiming, GivesTwoClaimersOfOneBlockTheSameRow) {
  for (int turn = 0; turn < 6; ++turn) {
    const BlockId id = neighbour_of(id_, turn);
    std::optional<cache::Row> theirs;
    before_operation(turn, [&] { theirs = claim(1, id); });
    const auto ours = claim(0, id);
    sides_[0]->channel.before_each({});
    if (!theirs) theirs = claim(1, id);
    ASSERT_TRUE(ours && theirs) << turn;
    EXPECT_EQ(ours->offset, theirs->offset) << turn;
  }
}

// A row is claimed for another block while a node is about to use it for the old one: one of the two gives way.
TEST_F(Claiming, NeverLeavesACellUnderTheWrongBlock) {
  const BlockId other = neighbour_of(id_, 0);
  for (int turn = 0; turn < 8; ++turn) {
    auto old_row = claim(1, id_);
    ASSERT_TRUE(old_row);
    bool changed = false;
    before_operation(turn, [&] {
      cache::Row row = *old_row;
      changed = sides_[1]->directory.change(sides_[1]->channel, row, 0, row.cell(0).loading_at({1, 1}), soon());
    });
    const auto new_row = claim(0, other);
    sides_[0]->channel.before_each({});
    ASSERT_TRUE(new_row);
    EXPECT_EQ(new_row->cell(0).state, cache::Cell::State::invalid) << "a cell of the old block, at turn " << turn;
    if (changed) {
      auto found = find(1, id_);
      ASSERT_TRUE(found) << "the old block is loading but has no row, at turn " << turn;
      EXPECT_EQ(found->cell(0).state, cache::Cell::State::loading);
      ASSERT_TRUE(sides_[1]->directory.change(sides_[1]->channel, *found, 0, found->cell(0).invalidated(), soon()));
    }
  }
}

// A claim that gives way hides the row's old block for a while. A node that wants that block during this time must not
// claim a second row: no node would find the cells under the row that is found last.
TEST_F(Claiming, GivesABlockOneRowWhileAClaimOfThatRowIsGivenUp) {
  const auto use = [&](cache::Row row) {
    return sides_[1]->directory.change(sides_[1]->channel, row, 0, row.cell(0).loading_at({1, 1}), soon());
  };
  for (const int turn : {2, 3}) {  // before the claimer's second look, and before it gives way
    const BlockId old = neighbour_of(id_, 2 * turn);
    const auto row = claim(1, old);
    ASSERT_TRUE(row);
    int operation = 0;
    sides_[0]->channel.before_each([&](const Operation&) {
      if (operation == 1) {
        EXPECT_TRUE(use(*row));
      }
      if (operation == turn) {
        const Deadline short_deadline = teams_[1]->fabric().in(std::chrono::milliseconds(20));
        const auto second = sides_[1]->directory.find_or_claim(sides_[1]->channel, old, short_deadline);
        EXPECT_TRUE(!second || use(*second));
      }
      ++operation;
    });
    EXPECT_TRUE(claim(0, neighbour_of(id_, 2 * turn + 1)));
    sides_[0]->channel.before_each({});
    EXPECT_EQ(rows_of(old), 1) << "the other node came in before operation " << turn;
  }
}

// The same scenario must fail for a change that does not look at the id again.
using ClaimingRules = Claiming;
TEST_F(ClaimingRules, CatchesAChangeThatDoesNotLookAgain) {
  auto old_row = claim(1, id_);
  ASSERT_TRUE(old_row);
  ASSERT_EQ(claim(0, neighbour_of(id_, 0))->offset, old_row->offset) << "an unused row is taken over";
  const cache::Directory broken(geometry_, sides_[1]->peers, teams_[1]->fabric(), {.claims_look_again = false});
  EXPECT_TRUE(broken.change(sides_[1]->channel, *old_row, 0, old_row->cell(0).loading_at({1, 1}), soon()));
  EXPECT_NE(find(0, neighbour_of(id_, 0))->cell(0).state, cache::Cell::State::invalid);
}

TEST_F(Claiming, LetsTheFaithfulChangeGiveWayInThatPlace) {
  auto old_row = claim(1, id_);
  ASSERT_TRUE(old_row);
  ASSERT_EQ(claim(0, neighbour_of(id_, 0))->offset, old_row->offset);
  EXPECT_FALSE(
      sides_[1]->directory.change(sides_[1]->channel, *old_row, 0, old_row->cell(0).loading_at({1, 1}), soon()));
  EXPECT_EQ(find(0, neighbour_of(id_, 0))->cell(0).state, cache::Cell::State::invalid);
}

TEST_F(Claiming, FindsNothingWhenTheBucketIsFull) {
  for (int i = 0; i < 8; ++i) {
    auto row = claim(1, neighbour_of(id_, i));
    ASSERT_TRUE(row);
    ASSERT_TRUE(sides_[1]->directory.change(sides_[1]->channel, *row, 1, row->cell(1).loading_at({1, 1}), soon()));
  }
  EXPECT_FALSE(claim(0, id_));
}

// A claimer died before it confirmed: the block must not be unusable for ever.
TEST_F(Claiming, ConfirmsAClaimThatItsOwnerLeft) {
  const auto [home, offset] = geometry_.bucket_of(id_);
  const auto word = sides_[1]->region->of(home).word<AtomicWord>(offset);
  ASSERT_TRUE(sides_[1]->channel.swap(word, id_ | cache::kClaiming, soon()).done());
  const auto row = claim(0, id_);
  ASSERT_TRUE(row);
  EXPECT_EQ(row->offset, offset);
}

// A claim may land long after its claimer's death, when the block has found another row and the claimed one is in use.
TEST_F(Claiming, EmptiesTheSecondRowOfABlock) {
  const auto use = [&](BlockId id) {
    auto row = claim(1, id);
    EXPECT_TRUE(row &&
                sides_[1]->directory.change(sides_[1]->channel, *row, 1, row->cell(1).loaded_at({1, 1}), soon()));
    return row;
  };
  const auto first = use(neighbour_of(id_, 0));
  const auto second = use(id_);
  ASSERT_TRUE(first && second);
  ASSERT_LT(first->offset, second->offset);
  const auto word = sides_[1]->region->of(first->home).word<AtomicWord>(first->offset);
  ASSERT_TRUE(sides_[1]->channel.swap(word, id_ | cache::kClaiming, soon()).done());
  ASSERT_TRUE(claim(1, neighbour_of(id_, 1))) << "confirms the claim, since it may not claim a row beside it";

  const auto found = find(0, id_);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->offset, first->offset);
  const auto cell = sides_[1]->region->of(second->home).word<AtomicWord>(second->offset + 16);
  EXPECT_EQ(cache::Cell::from_word(sides_[1]->channel.load(cell, soon()).value).state, cache::Cell::State::invalid);
}

// A discard that comes late meets another word, even when the cell names the same place again.
TEST_F(Claiming, KeepsALateDiscardFromErasingANewerCell) {
  auto row = claim(0, id_);
  ASSERT_TRUE(row);
  ASSERT_TRUE(sides_[0]->directory.change(sides_[0]->channel, *row, 0, row->cell(0).loaded_at({0, 3}), soon()));
  cache::Row stale = *row;
  ASSERT_TRUE(sides_[0]->directory.change(sides_[0]->channel, *row, 0, row->cell(0).invalidated(), soon()));
  ASSERT_TRUE(sides_[0]->directory.change(sides_[0]->channel, *row, 0, row->cell(0).loaded_at({0, 3}), soon()));
  EXPECT_FALSE(sides_[1]->directory.change(sides_[1]->channel, stale, 0, stale.cell(0).invalidated(), soon()));
}

// ---- Dropping the last two copies at the same time ----

class Discarding : public testing::TestWithParam<team::Rank> {
 protected:
  // The representative hands its cell to the alternative while the alternative drops its own copy; the other comes in
  // between two steps of the one that is interrupted. The turns after which the directory still names a dropped copy.
  static std::vector<int> turns_that_leave_a_cell(team::Rank interrupted, const cache::CacheRules& rules) {
    std::vector<int> found;
    for (int turn = 0;; ++turn) {
      TestPool pool(2, {.cache_bytes = 2 * kBlock, .singlet_ratio = 0}, rules);
      EXPECT_TRUE(pool.reads(0, key_of(1)));  // the representative
      EXPECT_TRUE(pool.reads(1, key_of(1)));  // the alternative
      EXPECT_TRUE(pool.reads(0, key_of(2)));
      EXPECT_TRUE(pool.reads(1, key_of(3)));

      int left = turn;  // whatever either reads next, it drops file 1
      pool.nodes[interrupted].channel->before_each([&](const Operation&) {
        if (left-- != 0) return;
        EXPECT_TRUE(pool.reads(1 - interrupted, key_of(4)));
      });
      EXPECT_TRUE(pool.reads(interrupted, key_of(5)));
      pool.nodes[interrupted].channel->before_each({});
      if (left >= 0) return found;  // there are no more steps to come between
      if (pool.cell_of(key_of(1)).state != cache::Cell::State::invalid) found.push_back(turn);
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Interrupted, Discarding, testing::Values(0, 1));

TEST_P(Discarding, LeavesNoCellThatNamesADroppedCopy) {
  EXPECT_THAT(turns_that_leave_a_cell(GetParam(), {}), testing::IsEmpty());
}

using DiscardingRules = Discarding;
INSTANTIATE_TEST_SUITE_P(Interrupted, DiscardingRules, testing::Values(0, 1));
TEST_P(DiscardingRules, CatchesADiscardThatDoesNotLookAgain) {
  EXPECT_THAT(turns_that_leave_a_cell(GetParam(), {.discard_looks_again = false}), testing::Not(testing::IsEmpty()));
}

}  // namespace
}  // namespace farside::test
