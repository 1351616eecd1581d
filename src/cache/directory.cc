#include "cache/directory.h"

#include <algorithm>

#include "farside/cache/time_limits.h"

#include "base/assert.h"
#include "cache/pause.h"

namespace farside::cache {

namespace {

template <class Predicate>
std::optional<std::uint32_t> first_row(Predicate is_it) {
  for (std::uint32_t row = 0; row < Geometry::kBucketRows; ++row) {
    if (is_it(row)) return row;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Row> Directory::find(Channel& channel, BlockId id, Deadline deadline) const {
  assert_that(id != 0 && (id & kClaiming) == 0, "a block's id is no claim, and not that of an unused row");
  const auto bucket = read_bucket(channel, id, deadline);
  return bucket ? row_in(channel, *bucket, id, deadline) : std::nullopt;
}

std::optional<Row> Directory::find_or_claim(Channel& channel, BlockId id, Deadline deadline) const {
  assert_that(id != 0 && (id & kClaiming) == 0, "a block's id is no claim, and not that of an unused row");
  Pause pause(fabric_);
  const Time start = fabric_.now();
  do {
    const auto bucket = read_bucket(channel, id, deadline);
    if (!bucket) return std::nullopt;
    if (auto row = row_in(channel, *bucket, id, deadline)) return row;

    if (const auto claimed = claimed_row(*bucket, id)) {
      // If it was this block's before, and its claimer gives way, it will be again.
      if (fabric_.now() - start > cache::time_limits::kClaim)
        confirm(channel, id, *claimed, id_word(*bucket, *claimed), deadline);
      continue;
    }
    const auto unused = unused_row(*bucket);
    if (!unused || !claim(channel, id, *bucket, *unused, deadline)) return std::nullopt;
    if (auto mine = find(channel, id, deadline)) return mine;
  } while (pause.wait_before(deadline));
  return std::nullopt;
}

bool Directory::claim(Channel& channel, BlockId id, const Bucket& bucket, std::uint32_t row, Deadline deadline) const {
  const team::Rank home = geometry_.bucket_of(id).rank;
  const std::uint64_t old_id = id_word(bucket, row);
  assert_that(old_id != id && !is_rival(old_id, id), "a row is claimed when none is the block's or being claimed");
  if (!exchange(channel, home, row_offset(id, row), old_id, id | kClaiming, deadline)) return true;

  const auto after = read_bucket(channel, id, deadline);
  if (!after) return false;
  bool has_rival = false;
  for (std::uint32_t other = 0; other < Geometry::kBucketRows; ++other) {
    const std::uint64_t word = id_word(*after, other);
    if (other != row && (word == id || is_rival(word, id))) has_rival = true;
  }
  if (rules_.claims_look_again && (has_rival || !all_invalid(*after, row))) {
    (void)exchange(channel, home, row_offset(id, row), id | kClaiming, old_id, deadline);
  } else {
    confirm(channel, id, row, id | kClaiming, deadline);
  }
  return true;
}

// Fails only when another node has confirmed it, which is as good.
void Directory::confirm(Channel& channel, BlockId id, std::uint32_t row, std::uint64_t claimed,
                        Deadline deadline) const {
  assert_that((claimed & kClaiming) != 0, "an id word that is confirmed is a claim");
  const team::Rank home = geometry_.bucket_of(id).rank;
  (void)exchange(channel, home, row_offset(id, row), claimed, claimed & ~kClaiming, deadline);
}

std::optional<Row> Directory::row_in(Channel& channel, const Bucket& bucket, BlockId id, Deadline deadline) const {
  const auto first = first_row([&](std::uint32_t row) { return id_word(bucket, row) == id; });
  if (!first) return std::nullopt;
  for (std::uint32_t row = *first + 1; row < Geometry::kBucketRows; ++row) {
    if (id_word(bucket, row) == id && !all_invalid(bucket, row)) {
      empty_second(channel, *first, row, make_row(bucket, id, row), deadline);
    }
  }
  return make_row(bucket, id, *first);
}

void Directory::empty_second(Channel& channel, std::uint32_t first, std::uint32_t second, Row row,
                             Deadline deadline) const {
  // The words of one READ are of different moments: perhaps one row bore the id only after the other.
  const auto again = read_bucket(channel, row.id, deadline);
  if (!again || id_word(*again, first) != row.id || id_word(*again, second) != row.id) return;
  for (std::uint32_t group = 0; group < geometry_.groups(); ++group) {
    const Cell cell = row.cell(group);
    if (cell.state != Cell::State::invalid) (void)change(channel, row, group, cell.invalidated(), deadline);
  }
}

bool Directory::change(Channel& channel, Row& row, std::uint32_t group, Cell to, Deadline deadline) const {
  assert_that(group < row.cells.size(), "a row has a cell for each group");
  const std::uint64_t from = row.cells[group];
  assert_that((to.nonce & Cell::kNonceMask) == ((Cell::from_word(from).nonce + 1) & Cell::kNonceMask),
              "each change of a cell adds one to its nonce");
  const std::uint64_t offset = row.offset + 8 * (1 + std::uint64_t{group});
  if (!exchange(channel, row.home, offset, from, to.word(), deadline)) return false;

  if (rules_.claims_look_again && Cell::from_word(from).state == Cell::State::invalid) {
    const Result<std::uint64_t> id = peers_.load(channel, row.home, row.offset, deadline);
    if (!id.done() || id.value != row.id) {
      (void)exchange(channel, row.home, offset, to.word(), to.invalidated().word(), deadline);
      return false;
    }
  }
  row.cells[group] = to.word();
  return true;
}

std::optional<Directory::Bucket> Directory::read_bucket(Channel& channel, BlockId id, Deadline deadline) const {
  const auto [home, offset] = geometry_.bucket_of(id);
  Bucket words(geometry_.bucket_bytes() / 8);
  const LocalSpan into(words.data(), geometry_.bucket_bytes());
  if (peers_.read(channel, into, home, offset, deadline) != Outcome::done) return std::nullopt;
  return words;
}

Row Directory::make_row(const Bucket& bucket, BlockId id, std::uint32_t row) const {
  const auto cells = bucket.begin() + static_cast<std::ptrdiff_t>(row * geometry_.row_bytes() / 8) + 1;
  return {id, geometry_.bucket_of(id).rank, row_offset(id, row), {cells, cells + geometry_.groups()}};
}

std::uint64_t Directory::id_word(const Bucket& bucket, std::uint32_t row) const {
  assert_in_tests(row < Geometry::kBucketRows, "a row lies in its bucket");
  return bucket[row * geometry_.row_bytes() / 8];
}

std::uint64_t Directory::row_offset(BlockId id, std::uint32_t row) const {
  assert_that(row < Geometry::kBucketRows, "a row lies in its bucket");
  return geometry_.bucket_of(id).offset + row * geometry_.row_bytes();
}

bool Directory::is_rival(std::uint64_t word, BlockId id) const {
  return rules_.claims_are_alone ? (word & kClaiming) != 0 : word == (id | kClaiming);
}

std::optional<std::uint32_t> Directory::claimed_row(const Bucket& bucket, BlockId id) const {
  return first_row([&](std::uint32_t row) { return is_rival(id_word(bucket, row), id); });
}

std::optional<std::uint32_t> Directory::unused_row(const Bucket& bucket) const {
  return first_row([&](std::uint32_t row) { return all_invalid(bucket, row); });
}

bool Directory::all_invalid(const Bucket& bucket, std::uint32_t row) const {
  const auto cells = bucket.begin() + static_cast<std::ptrdiff_t>(row * geometry_.row_bytes() / 8) + 1;
  return std::all_of(cells, cells + geometry_.groups(),
                     [](std::uint64_t word) { return Cell::from_word(word).state == Cell::State::invalid; });
}

bool Directory::exchange(Channel& channel, team::Rank home, std::uint64_t offset, std::uint64_t expected,
                         std::uint64_t desired, Deadline deadline) const {
  if (!rules_.cells_are_exchanged) return peers_.swap(channel, home, offset, desired, deadline).done();
  const Result<std::uint64_t> old = peers_.compare_swap(channel, home, offset, expected, desired, deadline);
  return old.done() && old.value == expected;
}

}  // namespace farside::cache
