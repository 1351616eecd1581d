// gas_stage.h — four ranks that use the same few pages (src/gas/protocol), step by step, as a test has them do.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "sim/world.h"
#include "tests/sim/gas/page_user.h"
#include "tests/sim/linearizability.h"

namespace farside::sim {

inline constexpr team::Rank kRanks = 4;
inline constexpr team::Rank kHome = 0;   // of page 0
inline constexpr team::Rank kActor = 1;  // it stops
inline constexpr team::Rank kOther = 2;
inline constexpr team::Rank kOwner = 3;  // of page 0, in the beginning
inline constexpr gas::PageId kPages = 4;
inline constexpr Duration kLease = std::chrono::milliseconds(5);

/// Nothing is late, so nothing may fail but because of the rank that stops.
inline Network harsh_but_prompt() {
  Network network;
  network.lands_late = false;
  network.answers_late = false;
  network.stalls_before_posting = false;
  network.revokes_slowly = false;
  network.detection = std::chrono::milliseconds(2);
  return network;
}

/// Four ranks that know where page 0 is, and what they get, put and add there. A page has a word that is put to, and
/// one that is added to.
class Stage {
 public:
  Stage(std::uint64_t seed, const Network& network, const gas::GasRules& rules) : world(seed, kRanks, network) {
    const gas::PageShape shape{.pages = kPages, .page_bytes = 16, .slots = 2, .cached_places = kPages};
    const auto first_owner = [](gas::PageId page) { return std::array{kOwner, kActor, kOther, kHome}.at(page); };
    for (team::Rank rank = 0; rank < kRanks; ++rank) {
      world.on(rank, [=, this] {
        memories_[rank] = std::make_unique<gas::PageMemory>(world.team(rank), "pages",
                                                            gas::PageSettings{shape, first_owner, kLease}, rules);
        users_[rank] = std::make_unique<PageUser>(*memories_[rank]);
        if (!get(rank, 0, kLimit).done()) fail("the first get did not end");
      });
    }
    finish("beginning");
  }

  // By a thread of `rank`. What a rank that was evicted finds says nothing: it may know outdated places only.

  comm::Status get(team::Rank rank, gas::PageId page = 0, Duration timeout = kLongTimeout) {
    std::array<std::uint64_t, 2> words{};
    std::array<std::size_t, 2> numbers{};
    for (const std::size_t word : {0, 1}) numbers[word] = history(page, word).begin({.begin = ++moment_});
    const comm::Status status =
        user(rank).accessor.get({page, 0, LocalSpan(words)}, user(rank).memory.fabric().in(timeout));
    if (!status.done() || world.evicted(rank)) return status;
    ++moment_;
    for (const std::size_t word : {0, 1}) history(page, word).end(numbers[word], moment_, words[word]);
    return status;
  }
  comm::Status put(team::Rank rank, gas::PageId page = 0, Duration limit = kLongTimeout) {
    std::uint64_t value = ++values_;
    const auto number =
        history(page, 0).begin({.kind = WordAction::Kind::put, .value = value, .begin = ++moment_, .repeats = true});
    const comm::Status status =
        user(rank).accessor.put({page, 0, LocalSpan(value)}, user(rank).memory.fabric().in(limit));
    if (status.done() && !world.evicted(rank)) history(page, 0).end(number, ++moment_);
    return status;
  }
  comm::Status add(team::Rank rank, gas::PageId page = 0) {
    const auto number = history(page, 1).begin({.kind = WordAction::Kind::add, .value = 1, .begin = ++moment_});
    const Result<std::uint64_t, comm::Status> old = user(rank).accessor.fetch_add(page, 8, 1, soon(rank));
    if (old.status.done() && !world.evicted(rank)) history(page, 1).end(number, ++moment_, old.value);
    return old.status;
  }
  comm::Status own(team::Rank rank, gas::PageId page = 0, Duration limit = kLongTimeout) {
    return user(rank).mover.own({&page, 1}, user(rank).memory.fabric().in(limit)).status;
  }
  /// What `rank` did with `page` is done, unless the page was at a rank that has died.
  void expect(const comm::Status& status, team::Rank rank, const std::string& what, gas::PageId page = 0) {
    if (status.done() || (status.outcome == Outcome::peer_lost && !world.alive(owner(rank, page)))) return;
    fail(what + " by rank " + std::to_string(rank) + ": " + std::string(to_string(status.outcome)));
  }

  // By the test.

  void finish(const std::string& at) {
    if (!world.run(kLimit)) fail("threads were still " + at + " when the time was over");
  }
  /// Each rank that lives and was not evicted uses `page` and moves it, when all that is late has come.
  void use_by_all(gas::PageId page = 0) {
    world.heal();
    for (team::Rank rank = 0; rank < kRanks; ++rank) {
      world.fabric(rank).before_each({});
      if (!world.alive(rank) || world.evicted(rank)) continue;
      world.on(rank, [=, this] {
        user(rank).memory.fabric().sleep(kLongTimeout);
        expect(get(rank, page), rank, "a get in the end", page);
        expect(put(rank, page), rank, "a put in the end", page);
        expect(add(rank, page), rank, "an addition in the end", page);
        expect(own(rank, page), rank, "an own in the end", page);
        expect(get(rank, page), rank, "a get after all", page);
      });
    }
    finish("using a page");
  }
  [[nodiscard]] std::optional<std::string> violation() {
    world.scheduler().settle(world.scheduler().now() + kLimit);  // a destructor cannot await stores
    for (std::size_t i = 0; i < histories_.size() && !violation_; ++i) {
      if (const auto wrong = histories_[i].violation()) fail("word " + std::to_string(i) + ": " + *wrong);
    }
    return violation_;
  }
  void fail(const std::string& what) {
    if (!violation_) violation_ = what;
  }

  World world;

 private:
  static constexpr Duration kLongTimeout = std::chrono::seconds(1);
  static constexpr Duration kLimit = std::chrono::seconds(60);

  [[nodiscard]] team::Rank owner(team::Rank as_seen_by, gas::PageId page) {
    gas::Location place;
    if (!user(as_seen_by).accessor.directory().look({&page, 1}, {&place, 1}, soon(as_seen_by)).done()) {
      fail("no answer from a home");
    }
    return place.owner;
  }
  [[nodiscard]] PageUser& user(team::Rank rank) { return *users_[rank]; }
  [[nodiscard]] Deadline soon(team::Rank rank) { return user(rank).memory.fabric().in(kLongTimeout); }
  [[nodiscard]] WordHistory& history(gas::PageId page, std::size_t word) { return histories_[2 * page + word]; }

  std::array<std::unique_ptr<gas::PageMemory>, kRanks> memories_;
  std::array<std::unique_ptr<PageUser>, kRanks> users_;
  std::array<WordHistory, 2 * kPages> histories_;
  std::uint64_t moment_ = 0;
  std::uint64_t values_ = 0;
  std::optional<std::string> violation_;
};

}  // namespace farside::sim
