#include "authority/office_store.h"

#include <algorithm>
#include <utility>

#include "farside/base/error.h"

#include "base/assert.h"
#include "base/backoff.h"
#include "base/random_bits.h"
#include "base/wire.h"

namespace farside::authority {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{20};
constexpr milliseconds kMaxPause{500};

/// A record of a log: the parts of an entry follow each other.
struct Part {
  std::uint64_t entry;
  std::uint32_t part;
  std::uint32_t parts;  ///< of the entry
  std::string bytes;
};
constexpr std::size_t kMaxPartBytes = RecordStore::kMaxValue - 64;

std::string encode_part(const Part& part) {
  return Encoder().number(part.entry).number(part.part).number(part.parts).text(part.bytes).take();
}

Part decode_part(std::string_view bytes) {
  Decoder from(bytes, "a decision in the authority's records");
  Part part{.entry = from.number<std::uint64_t>(),
            .part = from.number<std::uint32_t>(),
            .parts = from.number<std::uint32_t>(),
            .bytes = from.text()};
  from.expect_end();
  from.expect(part.part < part.parts, "it has more parts than it should have");
  return part;
}

std::string encode_present(std::uint64_t log) { return Encoder().number(log).take(); }

std::uint64_t decode_present(std::string_view bytes) {
  Decoder from(bytes, "which log is the present one");
  const auto log = from.number<std::uint64_t>();
  from.expect_end();
  return log;
}

}  // namespace

/// A commit: its changes, and what it needs besides the office.
struct OfficeStore::Step {
  std::vector<Condition> conditions;
  std::span<const Record> written;
  std::vector<KeyRange> removed{};
};

OfficeStore::OfficeStore(std::unique_ptr<RecordStore> store, OfficeKeys keys, Holder held, Pause pause,
                         const OfficeRules& rules)
    : store_(std::move(store)),
      keys_(std::move(keys)),
      held_(std::move(held)),
      pause_(std::move(pause)),
      rules_(rules) {}

// Makes attempts until one has an answer. None: there is to be no further one.
template <class Attempt>
auto OfficeStore::until_answered(Attempt attempt) -> decltype(attempt()) {
  Backoff pause(kFirstPause, kMaxPause);
  do {
    if (auto answer = attempt()) {
      note_wait(false);
      return answer;
    }
    note_wait(true);
  } while (pause_(pause.next()));
  note_wait(false);
  return std::nullopt;
}

std::optional<std::vector<Record>> OfficeStore::read_surely(const KeyRange& range) {
  return until_answered([&] { return store_->read(range); });
}

// An attempt that had no answer is repeated. That is safe: each needs a record that it changes itself, so it takes
// effect once, also if an earlier attempt does so after a later one.
std::optional<bool> OfficeStore::commit(const Step& step) {
  std::vector<Condition> conditions = step.conditions;
  if (rules_.decides_as_holder) conditions.push_back({keys_.holder(), encode_holder(held_)});
  const auto done = until_answered([&]() -> std::optional<bool> {
    const Commit commit = store_->commit(conditions, step.written, step.removed);
    return commit == Commit::unknown ? std::nullopt : std::optional(commit == Commit::done);
  });
  if (done != false) return done;
  const Record& last = step.written.back();  // was it an earlier attempt?
  const auto seen = read_surely(KeyRange::only(last.key));
  return seen ? std::optional(*seen == std::vector{last}) : std::nullopt;
}

void OfficeStore::note_wait(bool waits) {
  const MutexLock lock(mutex_);
  if (!waits) {
    waiting_.reset();
  } else if (!waiting_) {
    waiting_ = {Clock::now(), store_->why()};
  } else {
    waiting_->why = store_->why();
  }
}

std::optional<std::string> OfficeStore::why_waiting(std::chrono::milliseconds limit) const {
  const MutexLock lock(mutex_);
  return waiting_ && Clock::now() - waiting_->since > limit ? std::optional(waiting_->why) : std::nullopt;
}

// ---- Reading

std::vector<std::string> OfficeStore::read() {
  const auto present = read_surely(KeyRange::only(keys_.present()));
  if (present && present->empty()) return {};
  const auto records = present ? read_surely(keys_.log(decode_present(present->front().value))) : std::nullopt;
  if (!records) throw Error({"read the team's decisions in", name(), store_->why(), "is it there?"});
  return assemble(*records);
}

// Parts of the last entry may be missing: it was being written, and no process had learnt of it.
std::vector<std::string> OfficeStore::assemble(const std::vector<Record>& records) const {
  std::vector<std::string> entries;
  std::string entry;
  std::uint32_t next = 0;
  for (const Record& record : records) {
    const Part part = decode_part(record.value);
    if (part.entry != entries.size() || part.part != next) {
      throw Error({"take over the team whose decisions are in", name(), "a part of them is missing at " + record.key,
                   "give the pool up: end its nodes on all machines, then farside authority remove"});
    }
    entry += part.bytes;
    if (++next < part.parts) continue;
    entries.push_back(std::exchange(entry, {}));
    next = 0;
  }
  return entries;
}

// ---- Writing

std::vector<Record> OfficeStore::parts_of(std::uint64_t log, std::uint64_t entry, std::string_view bytes) const {
  const auto count = static_cast<std::uint32_t>(bytes.size() / kMaxPartBytes + 1);
  std::vector<Record> parts;
  for (std::uint32_t part = 0; part < count; ++part) {
    const std::string_view piece = bytes.substr(part * kMaxPartBytes, kMaxPartBytes);
    parts.push_back({keys_.part(log, entry, part), encode_part({entry, part, count, std::string(piece)})});
  }
  return parts;
}

Kept OfficeStore::write(std::span<const Record> parts) {
  while (!parts.empty()) {
    const auto batch = parts.first(std::min(parts.size(), RecordStore::kMaxWritten));
    Step step{.conditions = {{batch.front().key, std::nullopt}}, .written = batch};
    if (const auto before = last(); before && rules_.needs_entry_before)
      step.conditions.push_back({before->key, before->value});
    const auto done = commit(step);
    if (!done) return fail();
    if (!*done) return after_conflict();
    set_last(batch.back());
    parts = parts.subspan(batch.size());
  }
  return Kept::kept;
}

std::optional<Record> OfficeStore::last() const {
  const MutexLock lock(mutex_);
  return last_part_;
}

void OfficeStore::set_last(std::optional<Record> part) {
  const MutexLock lock(mutex_);
  last_part_ = std::move(part);
}

Kept OfficeStore::append(std::string_view entry) {
  const Kept kept = write(parts_of(log_, next_entry_, entry));
  if (kept == Kept::kept) ++next_entry_;
  return kept;
}

// Under a number that no log had: whatever an earlier attempt writes late, it does not write into this one.
Kept OfficeStore::replace(std::span<const std::string> entries) {
  Backoff pause(kFirstPause, kMaxPause);
  Kept kept = replace_once(entries);
  while (kept == Kept::rewound && pause_(pause.next())) kept = replace_once(entries);
  return kept == Kept::rewound ? fail() : kept;
}

Kept OfficeStore::replace_once(std::span<const std::string> entries) {
  assert_that(!entries.empty(), "a log has a head");
  const auto present = read_surely(KeyRange::only(keys_.present()));
  if (!present) return fail();
  const std::uint64_t next = present->empty() ? 1 : decode_present(present->front().value) + 1;
  log_ = rules_.numbers_logs_anew ? random_bits<std::uint64_t>() : next;
  next_entry_ = 0;
  set_last({});
  std::vector<Record> parts;
  for (const std::string& entry : entries)
    std::ranges::move(parts_of(log_, next_entry_++, entry), std::back_inserter(parts));
  if (const Kept kept = write(parts); kept != Kept::kept) return kept;

  // Whatever else was written of any log, by this process or one before, goes with the former one.
  const Record chosen{keys_.present(), encode_present(log_)};
  const KeyRange all = keys_.logs();
  const KeyRange own = keys_.log(log_);
  Step step{.conditions = {{chosen.key, present->empty() ? std::nullopt : std::optional(present->front().value)}},
            .written = {&chosen, 1},
            .removed = {{all.begin, own.begin}, {own.end, all.end}}};
  step.conditions.push_back({parts.back().key, parts.back().value});
  const auto done = commit(step);
  if (!done) return fail();
  return *done ? Kept::kept : after_conflict();
}

Kept OfficeStore::after_conflict() {
  const auto tenure = until_answered([&]() -> std::optional<Tenure> {
    const Tenure found = examine(*store_, keys_, held_);
    return found == Tenure::unknown ? std::nullopt : std::optional(found);
  });
  if (!tenure) return fail();
  if (*tenure != Tenure::superseded) return Kept::rewound;
  why_ = "another process has taken over";
  return Kept::superseded;
}

// An attempt that had no answer is not repeated: the pool's own process is about to end.
bool OfficeStore::remove() noexcept try {
  const Condition is_held{keys_.holder(), encode_holder(held_)};
  return remove_pool(*store_, keys_, {&is_held, 1}, held_) == Commit::done;
} catch (const std::exception&) {  // there is no memory
  return false;
}

Kept OfficeStore::fail() {
  why_ = "no attempt at " + store_->name() + " had an answer: " + store_->why();
  return Kept::failed;
}

}  // namespace farside::authority
