#include "kv/client/address_source.h"

#include "base/assert.h"

namespace farside::kv {

Outcome AddressSource::find(std::span<Search* const> searches, std::span<const Timestamp> candidates,
                            Deadline deadline) {
  read_.clear();
  asked_.clear();
  if (!candidates.empty()) {  // an address is that of the newest
    asked_.assign(searches.begin(), searches.end());
    return ask(candidates, deadline);
  }
  Batch batch(channel_);
  for (Search* search : searches) {
    const Address* known = addresses_.find(search->id);
    if (known == nullptr) {
      asked_.push_back(search);
      continue;
    }
    const RemoteRegion& memory = *memory_of(servers_, search->id).region;
    search->bytes.resize(known->record.bytes);
    batch.read({search->bytes.data(), search->bytes.size()}, memory.span(known->record.offset, known->record.bytes));
    read_.push_back(search);
  }
  const Outcome outcome = batch.wait(deadline);
  if (outcome != Outcome::done) return outcome;
  for (Search* search : read_) {
    if (!take(*search)) asked_.push_back(search);
  }
  return asked_.empty() ? Outcome::done : ask(candidates, deadline);
}

bool AddressSource::take(Search& search) {
  const Address* const address = addresses_.find(search.id);
  assert_that(address != nullptr, "an address is known until what was READ there is looked at");
  const Address known = *address;
  const auto record = read_record(search.bytes, known.generation, search.key, rules_.compares_checksums);
  if (!record) return false;
  if (rules_.looks_at_marks && (record->head.mark & RecordHead::kNotNewest) != 0) return false;
  search.set_found(*record);
  search.place = known.record;
  return true;
}

Outcome AddressSource::ask(std::span<const Timestamp> candidates, Deadline deadline) {
  const Outcome outcome = fallback_.find(asked_, candidates, deadline);
  if (outcome != Outcome::done) return outcome;
  for (const Search* search : asked_) {
    if (search->found && fits(search->place, *memory_of(servers_, search->id).region)) {
      addresses_.keep(search->id, {search->record.head.generation, search->place});
    } else {
      addresses_.drop(search->id);
    }
  }
  return outcome;
}

}  // namespace farside::kv
