// The office: whatever has no answer, takes effect late, hangs or is put back, at most one process decides, and each
// later one finds all that was decided.
#include "authority/office.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "farside/base/error.h"

#include "authority/office_store.h"
#include "tests/authority/stand_in_store.h"

namespace farside::authority {
namespace {

using test::StandInRecords;
using test::StandInStore;
using testing::ElementsAre;
using testing::IsEmpty;
using Decisions = std::vector<std::string>;

const OfficeKeys kKeys("pool");

// The decisions in the entries of a log: those that its first entry, the state, sums up, and one each.
Decisions decisions_in(const std::vector<std::string>& entries) {
  Decisions decisions;
  for (const std::string& entry : entries) {
    for (std::size_t at = 0; at + 8 <= entry.size(); at += 8) decisions.push_back(entry.substr(at, 8));
  }
  return decisions;
}

std::string sum_of(const Decisions& decisions) {
  std::string sum = ".";  // no entry is empty
  for (const std::string& decision : decisions) sum.insert(sum.size() - 1, decision);
  return sum;
}

bool has_all(const Decisions& found, const Decisions& wanted) {
  return std::ranges::all_of(wanted, [&](const std::string& each) { return std::ranges::count(found, each) == 1; });
}

// Several processes that take the office from each other. While one is in a request, others run whole calls: so it
// hangs and goes on later.
class World {
 public:
  World(std::uint64_t seed, OfficeRules rules) : records_(seed), rules_(rules), processes_(kProcesses) {
    records_.meanwhile = [this] { meanwhile(); };
    for (Process& process : processes_) {
      process.store = std::make_unique<StandInStore>(records_);
      process.office.emplace(*process.store, kKeys);
    }
  }

  std::optional<std::string> run() {
    for (int step = 0; step < kSteps && !violation_; ++step) {
      records_.take_late();
      act(processes_[records_.below(kProcesses)]);
    }
    if (violation_) return violation_;
    records_.is_faulty = false;  // at the end one takes over, and finds all
    settle();
    return violation_;
  }

 private:
  static constexpr std::size_t kProcesses = 3;
  static constexpr int kSteps = 60;
  static constexpr int kMaxDepth = 3;

  struct Process {
    std::unique_ptr<StandInStore> store{};
    std::optional<Office> office{};
    bool is_in_call = false;
    std::optional<Holder> held{};
    std::unique_ptr<OfficeStore> log{};
    Decisions known{};
  };

  void meanwhile() {
    records_.take_late();
    if (depth_ == kMaxDepth || !records_.one_in(5)) return;
    Process& other = processes_[records_.below(kProcesses)];
    ++depth_;
    if (!other.is_in_call) act(other);
    --depth_;
  }

  void act(Process& process) {
    process.is_in_call = true;
    if (!process.held) {
      take(process);
    } else if (records_.one_in(4)) {
      renew(process);
    } else if (records_.one_in(8)) {
      rewrite(process);
    } else if (records_.one_in(30)) {
      leave(process);
    } else {
      decide(process);
    }
    process.is_in_call = false;
  }

  void take(Process& process) {
    const auto view = process.office->look();
    if (!view) return;
    const auto held =
        process.office->take(*view, "somewhere", "process " + std::to_string(&process - processes_.data()));
    if (!held) return;
    auto log = std::make_unique<OfficeStore>(
        std::make_unique<StandInStore>(records_), kKeys, *held, [this](auto) { return !records_.one_in(8); }, rules_);
    const Decisions acknowledged = acknowledged_;  // before it reads
    Decisions found;
    try {
      found = decisions_in(log->read());
    } catch (const Error& error) {
      if (!std::string(error.what()).starts_with("cannot ")) violation_ = error.what();
      return;  // it gave up waiting
    }
    if (log->replace(std::vector<std::string>{sum_of(found)}) != Kept::kept)
      return;  // else it may have read when it was no holder any more
    if (!has_all(found, acknowledged)) violation_ = "a holder lacks a decision that was acknowledged";
    process.held = held;
    process.log = std::move(log);
    process.known = std::move(found);
  }

  void rewrite(Process& process) {
    if (process.log->replace(std::vector<std::string>{sum_of(process.known)}) != Kept::kept) leave(process);
  }

  void renew(Process& process) {
    const Tenure standing = process.office->renew(*process.held);
    if (standing == Tenure::superseded) leave(process);
    if (standing == Tenure::rewound) violation_ = "records are said to have been put back that were not";
  }

  void decide(Process& process) {
    std::string decision = std::to_string(10'000'000 + next_++);
    const Kept kept = process.log->append(decision);
    if (kept == Kept::rewound) violation_ = "an entry is said to be missing that is not";
    if (kept != Kept::kept) return leave(process);
    process.known.push_back(decision);
    acknowledged_.push_back(std::move(decision));
  }

  void leave(Process& process) {
    if (process.held && records_.one_in(2)) (void)process.office->resign(*process.held);
    process.held.reset();
    process.log.reset();
  }

  void settle() {
    Process& last = processes_.front();
    last.held.reset();
    while (!last.held && !violation_) take(last);
  }

  StandInRecords records_;
  const OfficeRules rules_;
  std::vector<Process> processes_;
  int depth_ = 0;
  std::uint64_t next_ = 0;
  Decisions acknowledged_;
  std::optional<std::string> violation_;
};

std::optional<std::string> first_violation(std::uint64_t usual, OfficeRules rules = {}) {
  const char* const wanted = std::getenv("FARSIDE_SIM_SEEDS");
  const std::uint64_t seeds = wanted == nullptr ? usual : std::strtoull(wanted, nullptr, 10);
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    if (auto violation = World(seed, rules).run()) return *violation + ", seed " + std::to_string(seed);
  }
  return std::nullopt;
}

TEST(Office, LosesNoDecisionUnderAnySeed) { EXPECT_EQ(first_violation(1000), std::nullopt); }

TEST(OfficeRules, ADecisionNeedsTheOffice) {
  EXPECT_NE(first_violation(5000, {.decides_as_holder = false}), std::nullopt);
}

// ---- Records that were put back: a snapshot was restored

class Records : public testing::Test {
 protected:
  Records() { records_.is_faulty = false; }

  struct Process {
    Holder held;
    std::unique_ptr<OfficeStore> log;
    std::vector<std::string> found;
  };
  Process take(Office& office, const std::string& address, const OfficeRules& rules = {}) {
    Process process{.held = office.take(*office.look(), address, address).value(), .log = {}, .found = {}};
    process.log = std::make_unique<OfficeStore>(
        std::make_unique<StandInStore>(records_), kKeys, process.held, [](auto) { return false; }, rules);
    process.found = process.log->read();
    EXPECT_EQ(process.log->replace(process.found.empty() ? std::vector<std::string>{"state"} : process.found),
              Kept::kept);
    return process;
  }

  StandInRecords records_{1};
  StandInStore store_{records_};
  Office first_{store_, kKeys};
  Office second_{store_, kKeys};
};

class RecordsPutBack : public Records {};

TEST_F(RecordsPutBack, IsNoticedByTheNextDecision) {
  const Process holder = take(first_, "a");
  ASSERT_EQ(holder.log->append("one"), Kept::kept);
  const auto snapshot = records_.records();
  ASSERT_EQ(holder.log->append("two"), Kept::kept);
  records_.put_back(snapshot);
  EXPECT_EQ(holder.log->append("three"), Kept::rewound);
  ASSERT_EQ(holder.log->replace(std::vector<std::string>{"state", "one", "two"}), Kept::kept);
  ASSERT_EQ(holder.log->append("three"), Kept::kept);
  EXPECT_THAT(take(second_, "b").found, ElementsAre("state", "one", "two", "three"));
}

TEST_F(RecordsPutBack, IsNoticedByTheNextRenewal) {
  const Process holder = take(first_, "a");
  ASSERT_EQ(first_.renew(holder.held), Tenure::held);
  const auto snapshot = records_.records();
  ASSERT_EQ(first_.renew(holder.held), Tenure::held);
  records_.put_back(snapshot);
  EXPECT_EQ(first_.renew(holder.held), Tenure::rewound);
  EXPECT_EQ(first_.renew(holder.held), Tenure::held);
}

// Also where the holder had not the office yet: it takes it back from one that has lost it.
TEST_F(RecordsPutBack, DoesNotBringAFormerHolderBack) {
  const Process former = take(first_, "a");
  ASSERT_EQ(first_.renew(former.held), Tenure::held);
  const auto snapshot = records_.records();
  const Process holder = take(second_, "b");
  ASSERT_EQ(holder.log->append("one"), Kept::kept);
  records_.put_back(snapshot);
  EXPECT_EQ(second_.renew(holder.held), Tenure::rewound);
  EXPECT_EQ(first_.renew(former.held), Tenure::superseded);
  EXPECT_EQ(former.log->append("two"), Kept::superseded);
  ASSERT_EQ(holder.log->replace(std::vector<std::string>{"state", "one"}), Kept::kept);
  EXPECT_THAT(take(first_, "a").found, ElementsAre("state", "one"));
}

TEST(RecordsPutBackRules, ADecisionNeedsTheOneBefore) {
  StandInRecords records(1);
  records.is_faulty = false;
  StandInStore store(records);
  Office office(store, kKeys);
  const Holder held = office.take(*office.look(), "a", "a").value();
  OfficeStore log(std::make_unique<StandInStore>(records), kKeys, held, [](auto) { return false; },
                  {.needs_entry_before = false});
  ASSERT_EQ(log.replace(std::vector<std::string>{"state"}), Kept::kept);
  const auto snapshot = records.records();
  ASSERT_EQ(log.append("one"), Kept::kept);
  records.put_back(snapshot);
  EXPECT_EQ(log.append("two"), Kept::kept);
  EXPECT_THROW((void)log.read(), Error);  // a gap, which the next holder finds
}

// ---- Entries

TEST_F(Records, EntriesOfAnySizeAreReadAsTheyWereWritten) {
  const Process holder = take(first_, "a");
  std::vector<std::string> entries{"state"};
  for (const std::size_t bytes : {1U << 10U, 32U << 10U, 33U << 10U, 3U << 20U}) {
    entries.emplace_back(bytes, static_cast<char>('a' + entries.size()));
    ASSERT_EQ(holder.log->append(entries.back()), Kept::kept);
  }
  EXPECT_EQ(take(second_, "b").found, entries);
  ASSERT_EQ(take(first_, "a").log->replace(entries), Kept::kept);
  EXPECT_EQ(take(second_, "b").found, entries);
}

// A part of the last one that was being written when its process ended is left out, and gone with the next log.
TEST_F(Records, AnEntryThatWasCutShortIsLeftOut) {
  const Process holder = take(first_, "a");
  ASSERT_EQ(holder.log->append("one"), Kept::kept);
  const auto before = records_.records();
  ASSERT_EQ(holder.log->append(std::string(3U << 20U, 'x')), Kept::kept);
  auto cut = records_.records();
  cut.erase(std::prev(cut.lower_bound(kKeys.logs().end)));
  records_.put_back(cut);
  EXPECT_THAT(take(second_, "b").found, ElementsAre("state", "one"));
  EXPECT_EQ(records_.records().size(), before.size());
}

// Its process hung, or was killed, before it said which log is the present one.
class RecordsOfANewLog : public Records {
 protected:
  /// Returns whether another process can take over.
  bool can_take_over_from_one_that_begins(const OfficeRules& rules) {
    const Process former = take(first_, "a", rules);
    records_.commits_left = 1;
    EXPECT_EQ(former.log->replace(std::vector<std::string>{"state", "one"}), Kept::failed);
    records_.commits_left.reset();
    const Holder held = second_.take(*second_.look(), "b", "b").value();
    OfficeStore log(
        std::make_unique<StandInStore>(records_), kKeys, held, [](auto) { return false; }, rules);
    EXPECT_THAT(log.read(), ElementsAre("state"));
    return log.replace(std::vector<std::string>{"state", "two"}) == Kept::kept &&
           log.read() == std::vector<std::string>{"state", "two"};
  }
};
TEST_F(RecordsOfANewLog, AreNotInTheWayOfTheNext) { EXPECT_TRUE(can_take_over_from_one_that_begins({})); }

class RecordsOfANewLogRules : public RecordsOfANewLog {};
TEST_F(RecordsOfANewLogRules, LogsAreNumberedAnew) {
  EXPECT_FALSE(can_take_over_from_one_that_begins({.numbers_logs_anew = false}));
}

// But the number of its last term: a process that hung meanwhile has lost the office all the same.
TEST_F(Records, OfAPoolThatHasEndedAreRemoved) {
  const Process hanging = take(first_, "a");
  ASSERT_EQ(first_.renew(hanging.held), Tenure::held);
  const Process last = take(second_, "b");
  EXPECT_TRUE(last.log->remove());
  EXPECT_EQ(records_.records().size(), 1U);
  EXPECT_EQ(first_.renew(hanging.held), Tenure::superseded);
  EXPECT_EQ(hanging.log->append("one"), Kept::superseded);
  const Process next = take(second_, "b");
  EXPECT_THAT(next.found, IsEmpty());
  EXPECT_EQ(next.held.term, last.held.term + 1);
}

TEST_F(Records, OfTheOfficeAreReadWithoutTheLog) {
  const Process holder = take(first_, "a");
  ASSERT_EQ(first_.renew(holder.held), Tenure::held);
  const KeyRange office = kKeys.office();
  EXPECT_EQ(StandInStore(records_).read(office)->size(), 2U);
  EXPECT_EQ(first_.look()->holder, holder.held);
}

// It hung between its look and its attempt, and the holder was there all the time.
TEST_F(Records, OfTheOfficeAreTakenAsTheyWereSeen) {
  const Process holder = take(first_, "a");
  const Office::View seen = *second_.look();
  ASSERT_EQ(first_.renew(holder.held), Tenure::held);
  EXPECT_EQ(second_.take(seen, "b", "b"), std::nullopt);
}

}  // namespace
}  // namespace farside::authority
