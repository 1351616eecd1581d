#include "kv/client/cell_source.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"

namespace farside::kv {

namespace {

/// The versions that a cell holds of a key.
struct CellView {
  std::array<const CellSlot*, CellHead::kSlots> slots{};  // that bear a version
  std::size_t count = 0;

  /// There is no version elsewhere.
  [[nodiscard]] bool is_complete() const { return count < CellHead::kSlots; }
};

CellView view_of(const CellHead& head) {
  CellView view;
  for (const CellSlot& slot : head.slots) {
    if (RecordPlace::from_word(slot.place).state != VersionState::empty) view.slots.at(view.count++) = &slot;
  }
  return view;
}

bool fits(const IndexWord& cell, const RemoteRegion& memory) {
  return cell.bytes >= sizeof(CellHead) && cell.offset + cell.bytes <= memory.bytes();
}

const CellSlot* newest_committed(const CellView& view) {
  const CellSlot* newest = nullptr;
  for (std::size_t i = 0; i < view.count; ++i) {
    const CellSlot& slot = *view.slots.at(i);
    if (RecordPlace::from_word(slot.place).state != VersionState::committed) continue;
    if (newest == nullptr || newest->timestamp < slot.timestamp) newest = &slot;
  }
  return newest;
}

const CellSlot* highest_among(const CellView& view, std::span<const Timestamp> candidates) {
  const CellSlot* highest = nullptr;
  for (std::size_t i = 0; i < view.count; ++i) {
    const CellSlot& slot = *view.slots.at(i);
    if (std::ranges::find(candidates, slot.timestamp) == candidates.end()) continue;
    if (highest == nullptr || highest->timestamp < slot.timestamp) highest = &slot;
  }
  return highest;
}

}  // namespace

Outcome CellSource::find(std::span<Search* const> searches, std::span<const Timestamp> candidates, Deadline deadline) {
  candidates_ = candidates;
  if (walks_.size() < searches.size()) walks_.resize(searches.size());
  const std::span walks(walks_.data(), searches.size());
  for (std::size_t i = 0; i < searches.size(); ++i) begin(walks[i], *searches[i]);
  for (;;) {
    Batch batch(channel_);
    bool waits = false;
    for (Walk& walk : walks) {
      if (walk.step >= Step::ask) continue;
      post(walk, batch);
      waits = true;
    }
    if (!waits) break;
    const Outcome outcome = batch.wait(deadline);
    if (outcome != Outcome::done) return outcome;
    for (Walk& walk : walks) {
      if (walk.step < Step::ask) advance(walk);
    }
  }
  asked_.clear();
  for (const Walk& walk : walks) {
    if (walk.step == Step::ask) asked_.push_back(walk.search);
  }
  return asked_.empty() ? Outcome::done : fallback_.find(asked_, candidates, deadline);
}

void CellSource::begin(Walk& walk, Search& search) {
  walk.search = &search;
  walk.server = &memory_of(servers_, search.id);
  walk.tries = 0;
  const Place* known = cells_.find(search.id);
  walk.place_was_cached = known != nullptr;
  if (known == nullptr) return search_anew(walk);
  walk.place = *known;
  walk.step = Step::cell;
}

void CellSource::search_anew(Walk& walk) {
  walk.bucket = bucket_of(walk.search->id, walk.server->index_buckets);
  walk.buckets_seen = 0;
  walk.step = Step::bucket;
}

void CellSource::post(Walk& walk, Batch& batch) {
  const RemoteRegion& memory = *walk.server->region;
  const auto post_record = [&] {
    walk.search->bytes.resize(walk.place.record.bytes);
    batch.read({walk.search->bytes.data(), walk.search->bytes.size()},
               memory.span(walk.place.record.offset, walk.place.record.bytes));
  };
  switch (walk.step) {
    case Step::bucket:
      batch.read(LocalSpan(walk.words),
                 memory.span(walk.server->index_offset + walk.bucket * sizeof walk.words, sizeof walk.words));
      return;
    case Step::cell:
      walk.cell.resize(walk.place.cell.bytes);
      batch.read({walk.cell.data(), walk.cell.size()}, memory.span(walk.place.cell.offset, walk.cell.size()));
      if (walk.place.generation != 0) post_record();  // it is likely to be the newest still
      return;
    case Step::record: post_record(); return;
    case Step::ask:
    case Step::finished: return;
  }
}

void CellSource::advance(Walk& walk) {
  switch (walk.step) {
    case Step::bucket: return look_into_bucket(walk);
    case Step::cell: return look_into_cell(walk);
    case Step::record: return look_at_record(walk);
    case Step::ask:
    case Step::finished: return;
  }
}

void CellSource::look_into_bucket(Walk& walk) {
  walk.found = index_candidates(walk.words, walk.search->id);
  walk.next = 0;
  ++walk.buckets_seen;
  try_next_cell(walk);
}

void CellSource::try_next_cell(Walk& walk) {
  while (walk.next < walk.found.count) {
    const IndexWord word = walk.found.words.at(walk.next++);
    if (!fits(word, *walk.server->region)) continue;  // not a server's word
    walk.place = {word, 0, {}};
    walk.step = Step::cell;
    return;
  }
  if (ends_search(walk.words) || walk.buckets_seen == walk.server->index_buckets) {
    return finish_absent(walk);
  }
  walk.bucket = (walk.bucket + 1) & (walk.server->index_buckets - 1);
  walk.step = Step::bucket;
}

void CellSource::look_into_cell(Walk& walk) {
  assert_that(walk.cell.size() >= sizeof(CellHead), "only what has room for a cell's head is READ as a cell");
  CellHead head;
  std::memcpy(&head, walk.cell.data(), sizeof head);
  if (head.key != walk.search->id) {  // another key's, or not a cell any more
    if (!walk.place_was_cached) return try_next_cell(walk);
    walk.place_was_cached = false;
    cells_.drop(walk.search->id);
    return search_anew(walk);
  }
  if (rules_.compares_checksums && head.seal != head.seal_of()) return try_again(walk);  // it is changing this moment
  const CellView view = view_of(head);
  const CellSlot* slot = highest_among(view, candidates_);
  const bool certain = slot != nullptr && slot->timestamp == *std::ranges::max_element(candidates_);
  if (!candidates_.empty() && !certain && !view.is_complete()) {
    walk.step = Step::ask;
    return;
  }
  if (slot == nullptr) slot = newest_committed(view);
  if (slot != nullptr) return take(walk, *slot);
  finish_absent(walk);
}

void CellSource::finish_absent(Walk& walk) {
  walk.search->set_absent();
  walk.step = candidates_.empty() ? Step::finished : Step::ask;  // the server knows what it has forgotten
}

void CellSource::take(Walk& walk, const CellSlot& slot) {
  Search& search = *walk.search;
  search.place = RecordPlace::from_word(slot.place);
  if (walk.place.generation == slot.generation && accept(walk, slot.generation)) return;  // READ together with the cell
  const auto copy = std::span(walk.cell).subspan(sizeof(CellHead));
  if (search.place.bytes <= copy.size()) {
    search.bytes.assign(copy.begin(), copy.begin() + static_cast<std::ptrdiff_t>(search.place.bytes));
    walk.place.generation = 0;
    if (accept(walk, slot.generation)) return;
  }
  walk.place.generation = slot.generation;
  walk.place.record = search.place;
  walk.step = fits(search.place, *walk.server->region) ? Step::record : Step::ask;
}

bool CellSource::accept(Walk& walk, std::uint64_t generation) {
  Search& search = *walk.search;
  const auto record = read_record(search.bytes, generation, search.key, rules_.compares_checksums);
  if (!record) return false;
  search.set_found(*record);
  cells_.keep(search.id, walk.place);
  walk.step = Step::finished;
  return true;
}

void CellSource::look_at_record(Walk& walk) {
  if (accept(walk, walk.place.generation)) return;
  // Reclaimed since the cell was read, or being so: the cell says by now what is there instead.
  walk.place.generation = 0;
  try_again(walk);
}

void CellSource::try_again(Walk& walk) { walk.step = ++walk.tries < kTries ? Step::cell : Step::ask; }

}  // namespace farside::kv
