// accessor.h — one thread's way to pages that move (docs/protocols/gas.md, "Getting", "Putting").
//
// Guarantee: a put that returned is seen by every get that begins later, wherever the page has been moved meanwhile. A
// get of an aligned word finds what the word was at some moment between call and return. Where a page is known, either
// costs one operation on its bytes.
//
// For one thread. Transfers that were begun, and not awaited, hold their pages: end them before anything else.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/backoff.h"
#include "gas/protocol/holder.h"
#include "gas/protocol/page_directory.h"
#include "gas/time_limits.h"

namespace farside::gas {

class Accessor {
 public:
  explicit Accessor(PageMemory& memory);

  [[nodiscard]] PageMemory& memory() const noexcept { return memory_; }
  [[nodiscard]] Channel& channel() const noexcept { return *channel_; }
  [[nodiscard]] PageDirectory& directory() noexcept { return directory_; }

  comm::Status get(const PagePart& part, Deadline deadline);
  /// Gets many parts, all under way at once.
  comm::Status get(std::span<const PagePart> parts, Deadline deadline);
  comm::Status put(const PagePart& part, Deadline deadline);
  /// On an aligned word of a page.
  Result<std::uint64_t, comm::Status> fetch_add(PageId page, std::uint64_t offset, std::uint64_t addend,
                                                Deadline deadline);
  Result<std::uint64_t, comm::Status> compare_swap(PageId page, std::uint64_t offset, std::uint64_t expected,
                                                   std::uint64_t desired, Deadline deadline);

  // Many at once: begun here, and under way until `finish`. They may go on in the pages that follow.
  void begin_get(const PagePart& part) { begin(part, false); }
  void begin_put(const PagePart& part) { begin(part, true); }
  comm::Status finish(Deadline deadline);
  /// Something was begun and not awaited.
  [[nodiscard]] bool is_open() const noexcept { return !transfers_.empty(); }
  /// Ends what was begun, for an exception that is to leave: its buffers are not touched afterwards. What is under way
  /// is awaited for a second at most, then abandoned, which the fabric does with certainty; a put that was abandoned
  /// keeps its hold, as after any failure.
  void cancel() noexcept;

  // A put that fails may still land until its owner is lost, or a flush of that owner is done: then nothing lands any
  // more that this channel posted before (channel.h). Until then its hold stays, marked as given up, and this thread
  // puts nothing else to that owner: so it has one such hold for each owner at most.

  [[nodiscard]] bool is_in_doubt() const noexcept { return !in_doubt_.empty(); }
  /// Ends the holds of what cannot land any more. Each owner is asked, for as long as there is time.
  void settle(Deadline deadline);
  /// The same, but rarely, and not for long: an owner that does not answer must not hold up work that does not need it.
  void settle_now_and_then();
  /// Before this goes. What is still in doubt then is waited for as of a rank that has stopped.
  void part(Deadline deadline) noexcept;

  /// Finds the place of the page; waits while it is being moved. The pointer holds until the next call.
  struct Found {
    comm::Status status;
    const KnownPlace* known = nullptr;
  };
  Found find(PageId page, Deadline deadline);
  /// The place of the page, if this thread knows it without a request.
  [[nodiscard]] const KnownPlace* known(PageId page) const noexcept {
    const KnownPlace& known = known_[memory_.layout().cached_at(page)];
    return known.page == page ? &known : nullptr;
  }
  /// The page is still where it was.
  [[nodiscard]] bool holds(const KnownPlace& known) const {
    return memory_.own_revoked(known.page).load() == known.sampled;
  }

 private:
  struct Transfer {
    Transfer(PageId page, std::uint64_t offset, LocalSpan local, bool puts) : part{page, offset, local}, is_put(puts) {}

    PagePart part;
    bool is_put;
    bool posted = false;
    std::uint64_t sampled = 0;
    team::Rank owner = 0;
  };

  /// Puts that were given up, and may still land at these owners.
  struct PutInDoubt {
    std::unique_ptr<Holder> holder;
    std::vector<team::Rank> owners;
  };

  /// Bytes that follow each other on both sides, of as many pages as they may be.
  struct Run {
    const RemoteRegion* region = nullptr;
    std::uint64_t there = 0;
    std::uint64_t here = 0;
    std::uint64_t bytes = 0;
  };

  void begin(const PagePart& part, bool is_put);
  /// False for a put that finds its page moved.
  [[nodiscard]] bool claim(Transfer& transfer, const KnownPlace& known);
  void post(const Run& run, LocalSpan local, bool is_put);
  void keep(const KnownPlace& known) { known_[memory_.layout().cached_at(known.page)] = known; }

  /// Awaits what is posted, and forgets what has succeeded.
  comm::Status await_posted(Deadline deadline);
  comm::Status await_puts(Deadline deadline);
  comm::Status judge_failure(Outcome outcome);
  /// Posts what is not yet posted, having asked where it is to go.
  comm::Status post_rest(Deadline deadline);
  comm::Status get_while_moving(Transfer& transfer, const Location& place, Deadline deadline);
  comm::Status give_up(comm::Status status);
  /// Nothing lands at `owner` any more that was given up. False when that is not known in time.
  [[nodiscard]] bool is_over(team::Rank owner, Deadline deadline);
  [[nodiscard]] bool is_in_doubt(team::Rank owner) const;
  comm::Status settle_at(team::Rank owner, Deadline deadline);

  template <class Act>
  Result<std::uint64_t, comm::Status> act_on_word(PageId page, std::uint64_t offset, Act act, Deadline deadline);

  PageMemory& memory_;
  std::unique_ptr<Channel> channel_;
  PageDirectory directory_;
  std::unique_ptr<Holder> holder_;
  std::vector<KnownPlace> known_;  // by PageLayout::cached_at

  std::unique_ptr<Batch> batch_;
  std::vector<Transfer> transfers_;  // begun
  std::vector<team::Rank> written_;  // owners with puts that were not flushed
  std::vector<PutInDoubt> in_doubt_;
  Time next_settling_{};
  Backoff<Duration> settling_backoff_{gas::time_limits::kFirstSettlePause, gas::time_limits::kMaxSettlePause};
  std::vector<PageId> asked_;  // kept for their room
  std::vector<KnownPlace> answers_;
};

}  // namespace farside::gas
