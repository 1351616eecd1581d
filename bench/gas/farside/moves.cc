#include "bench/gas/farside/moves.h"

#include <algorithm>
#include <numeric>
#include <thread>

namespace farside::bench {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kMoved = 16;  // pages of each round
constexpr std::uint64_t kSmallestPage = 64;
constexpr auto kUntilOthersSleep = std::chrono::microseconds(200);

gas::PagesOptions pages_of(const GasSeat& seat, std::uint64_t bytes) {
  return {.pages = kMoved * seat.size(), .page_bytes = bytes, .slots = 4 * kMoved};
}

gas::PagesOptions many_pages_of(GasSeat& seat) {
  return {.pages = kManyPages.back(),
          .page_bytes = kSmallestPage,
          .first_owner = [last = seat.last()](gas::PageId /*page*/) { return last; },
          .slots = 2 * kManyPages.back()};
}

}  // namespace

Moves::Sized::Sized(GasSeat& seat, std::uint64_t bytes)
    : pages(*seat.team, "moved pages of " + std::to_string(bytes), pages_of(seat, bytes)), access(pages) {}

Moves::Moves(GasSeat& seat)
    : seat_(seat), many_(*seat.team, "many pages", many_pages_of(seat)), access_to_many_(many_) {
  for (std::uint64_t i = 0; i < kMoved; ++i) moved_.push_back(kHome + i * seat.size());
  for (const std::uint64_t bytes : kSizes) {
    if (bytes >= kSmallestPage) sized_.try_emplace(bytes, seat, bytes);
  }
}

void Moves::offer(Work& work) {
  work.together_in_part("own-many",
                        [this](std::uint64_t count, std::uint64_t rounds) { return own_many(count, rounds); });
  work.together_in_part("own", [this](std::uint64_t bytes, std::uint64_t rounds) { return own(bytes, 0, rounds); });
  work.together_in_part("own-shared", [this](std::uint64_t sharers, std::uint64_t rounds) {
    return own(kBytesOfSharedPage, static_cast<team::Rank>(sharers), rounds);
  });
}

Nanoseconds Moves::own_many(std::uint64_t count, std::uint64_t rounds) {
  std::vector<gas::PageId> pages(count);
  std::iota(pages.begin(), pages.end(), 0);
  Nanoseconds taken{0};
  for (; rounds != 0; --rounds) {
    if (seat_.rank() == seat_.last()) check(access_to_many_.own(pages, seat_.deadline()).status, "taking pages back");
    seat_.meet();
    if (seat_.rank() == 0) {
      const Clock::time_point start = Clock::now();
      check(access_to_many_.own(pages, seat_.deadline()).pages == count, "own of many");
      taken += Nanoseconds(Clock::now() - start) / static_cast<double>(count);
    }
    seat_.meet();
  }
  return taken;
}

Nanoseconds Moves::own(std::uint64_t bytes, team::Rank sharers, std::uint64_t rounds) {
  gas::PageAccess& access = sized_.at(bytes).access;
  Nanoseconds taken{0};
  for (; rounds != 0; --rounds) {
    const Deadline deadline = seat_.deadline();
    if (seat_.rank() == seat_.last()) check(access.own(moved_, deadline).status, "taking pages back");
    seat_.meet();
    if (seat_.rank() != 0 && seat_.rank() <= sharers) {
      std::uint64_t word = 0;
      for (const gas::PageId page : moved_) check(access.get({page, 0, LocalSpan(word)}, deadline), "sharing a page");
    }
    seat_.meet();
    if (seat_.rank() == 0) {
      std::this_thread::sleep_for(kUntilOthersSleep);
      const Clock::time_point start = Clock::now();
      for (const gas::PageId& page : moved_) check(access.own({&page, 1}, deadline).pages == 1, "own");
      taken += Nanoseconds(Clock::now() - start) / kMoved;
    }
    seat_.meet();
  }
  return taken;
}

}  // namespace farside::bench
