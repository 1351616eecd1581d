// directory.h — the representative directory: for each block, where each group has it (Anco, 2.4.1).
//
// A row is found in the block's bucket by its id word: 0, a block's id, or an id with kClaiming set. Rows are claimed
// and changed by COMPARE_SWAP alone:
//
//   claim     put id | kClaiming over the id of a row whose cells are all invalid; read the bucket again; if a cell
//             came into use meanwhile, another row bears the same id, or another row is being claimed for whatever
//             block, put the old id back and start over; otherwise confirm: take kClaiming off. No node uses a row
//             before that, nor claims one in a bucket in which it sees a claim: the row may go back to its old id,
//             and that may be the id of its own claim.
//   change    COMPARE_SWAP a cell of a confirmed row. Where this makes an invalid cell valid, read the id again: if the
//             row is being claimed for another block, put the cell back and start over.
//
// When a claim and a change cross, or two claims, at least one sees the other when it reads again.
// Guarantee: while no node has died in between, a block has one row, and every cell under its id is about it.
// A claim that stays unconfirmed is confirmed by a node that has waited long enough; a cell may then be about another
// block, and a node that follows it finds that out and replaces it. Or the block has had another row for long: a claim
// may land at any time after its claimer's death. The first of them counts, and a node that sees a second empties it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "farside/team/team.h"

#include "cache/cell.h"
#include "cache/geometry.h"
#include "cache/peers.h"
#include "cache/rules.h"

namespace farside::cache {

/// In a row's id word: the row is being claimed.
inline constexpr std::uint64_t kClaiming = 1ULL << 63U;

/// One block's row as it was read.
struct Row {
  BlockId id;
  team::Rank home;
  std::uint64_t offset;  ///< of its id word, in the home's region
  std::vector<std::uint64_t> cells;

  [[nodiscard]] Cell cell(std::uint32_t group) const { return Cell::from_word(cells[group]); }
};

class Directory {
 public:
  Directory(const Geometry& geometry, Peers& peers, Fabric& fabric, const CacheRules& rules = {})
      : geometry_(geometry), peers_(peers), fabric_(fabric), rules_(rules) {}

  /// The row of `id`, or nothing: it has none, or its home is out of reach.
  [[nodiscard]] std::optional<Row> find(Channel& channel, BlockId id, Deadline deadline) const;

  /// The row of `id`, claimed if need be; nothing when the bucket is full or its home is out of reach.
  [[nodiscard]] std::optional<Row> find_or_claim(Channel& channel, BlockId id, Deadline deadline) const;

  /// Turns the cell of `group` from what `row` says into `to`. False when it was no longer that, or the home is out of
  /// reach. On success `row` says `to`.
  [[nodiscard]] bool change(Channel& channel, Row& row, std::uint32_t group, Cell to, Deadline deadline) const;

 private:
  using Bucket = std::vector<std::uint64_t>;
  [[nodiscard]] std::optional<Bucket> read_bucket(Channel& channel, BlockId id, Deadline deadline) const;
  /// The row of `id` in its bucket. Empties other rows that bear the id as well.
  [[nodiscard]] std::optional<Row> row_in(Channel& channel, const Bucket& bucket, BlockId id, Deadline deadline) const;
  /// Makes all cells of `row`, which was read as the bucket's row `second`, invalid, if it and `first` bear one id.
  void empty_second(Channel& channel, std::uint32_t first, std::uint32_t second, Row row, Deadline deadline) const;
  /// Returns whether the id word is a claim, beside which no row for `id` may be claimed.
  [[nodiscard]] bool is_rival(std::uint64_t word, BlockId id) const;
  [[nodiscard]] std::optional<std::uint32_t> claimed_row(const Bucket& bucket, BlockId id) const;
  [[nodiscard]] std::optional<std::uint32_t> unused_row(const Bucket& bucket) const;
  [[nodiscard]] bool all_invalid(const Bucket& bucket, std::uint32_t row) const;
  [[nodiscard]] Row make_row(const Bucket& bucket, BlockId id, std::uint32_t row) const;
  /// False when the home is out of reach. Whether the claim was won shows when the bucket is read next.
  [[nodiscard]] bool claim(Channel& channel, BlockId id, const Bucket& bucket, std::uint32_t row,
                           Deadline deadline) const;
  /// Confirms the claim of a row in the bucket of `id`, whose id word is `claimed`.
  void confirm(Channel& channel, BlockId id, std::uint32_t row, std::uint64_t claimed, Deadline deadline) const;
  [[nodiscard]] std::uint64_t id_word(const Bucket& bucket, std::uint32_t row) const;
  [[nodiscard]] std::uint64_t row_offset(BlockId id, std::uint32_t row) const;
  /// True when the word was `expected` and now is `desired`.
  [[nodiscard]] bool exchange(Channel& channel, team::Rank home, std::uint64_t offset, std::uint64_t expected,
                              std::uint64_t desired, Deadline deadline) const;

  const Geometry& geometry_;
  Peers& peers_;
  Fabric& fabric_;
  const CacheRules rules_;
};

}  // namespace farside::cache
