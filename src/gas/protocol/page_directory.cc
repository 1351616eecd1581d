#include "gas/protocol/page_directory.h"

#include <algorithm>
#include <numeric>

#include "base/assert.h"

namespace farside::gas {

using comm::Status;

Status PageDirectory::status_at_homes(std::span<const PageId> pages, Outcome outcome) const {
  Status status{outcome, {}};
  if (outcome != Outcome::peer_lost) return status;
  const auto is_homeless = [this](PageId page) { return memory_.fabric().lost(memory_.layout().home_of(page)); };
  const auto page = std::ranges::find_if(pages, is_homeless);
  if (page != pages.end()) status.lost = memory_.layout().home_of(*page);
  return status;
}

Status PageDirectory::look(std::span<const PageId> pages, std::span<Location> places, Deadline deadline) {
  assert_that(places.size() == pages.size(), "there is a place for the answer to each page");
  std::vector<std::uint64_t> words(pages.size());
  Batch batch(channel_);
  for (std::size_t i = 0; i < pages.size(); ++i) {
    const auto word = memory_.place(pages[i]);
    batch.read(LocalSpan(words[i]), {word.region, word.offset, 8});
  }
  const Outcome read = batch.wait(deadline);
  if (read != Outcome::done) return status_at_homes(pages, read);
  for (std::size_t i = 0; i < pages.size(); ++i) {
    places[i] = Location::from_word(words[i]);
    if (!memory_.exists(places[i])) return comm::status_with(Outcome::peer_lost, memory_.layout().home_of(pages[i]));
  }
  return {};
}

Status PageDirectory::register_and_look(std::span<const PageId> pages, std::vector<KnownPlace>& found,
                                        Deadline deadline) {
  const GasRules& rules = memory_.rules();
  found.clear();
  // In this order: a rank that moves the page from here on either finds this rank among the sharers, and advances
  // `revoked`, or has moved it before the entry is read.
  for (const PageId page : pages) {
    if (!rules.revoking_counts) (void)channel_.swap(memory_.revoked(memory_.self(), page), 0, deadline);
    found.push_back({.page = page, .sampled = memory_.own_revoked(page).load()});
  }
  std::vector<Location> places(pages.size());
  if (rules.registers_before_reading) {
    if (const Status registered = register_this_rank(pages, deadline); !registered.done()) return registered;
  }
  if (const Status looked = look(pages, places, deadline); !looked.done()) return looked;
  if (!rules.registers_before_reading) {
    if (const Status registered = register_this_rank(pages, deadline); !registered.done()) return registered;
  }
  for (std::size_t i = 0; i < pages.size(); ++i) {
    found[i].place = places[i];
    found[i].region = &memory_.of(places[i].owner);
    found[i].offset = memory_.layout().slot(places[i].slot);
  }
  return {};
}

Status PageDirectory::register_this_rank(std::span<const PageId> pages, Deadline deadline) {
  const team::Rank self = memory_.self();
  std::vector<std::uint64_t> expected(pages.size());
  std::vector<std::uint64_t> seen(pages.size());
  std::vector<std::size_t> open(pages.size());
  std::iota(open.begin(), open.end(), 0);
  while (!open.empty()) {
    Batch batch(channel_);
    for (const std::size_t i : open) {
      const Sharers with = Sharers::from_word(expected[i]).with(self % Sharers::kRanks);
      batch.compare_swap(memory_.sharers(pages[i], self / Sharers::kRanks), expected[i], with.word(), seen[i]);
    }
    const Outcome swapped = batch.wait(deadline);
    if (swapped != Outcome::done) return status_at_homes(pages, swapped);
    std::erase_if(open, [&](std::size_t i) {
      const bool is_registered =
          memory_.rules().registering_shows
              ? seen[i] == expected[i]
              : seen[i] == expected[i] || Sharers::from_word(seen[i]).has(self % Sharers::kRanks);
      expected[i] = seen[i];
      return is_registered;
    });
  }
  return {};
}

Status PageDirectory::await_rest(PageId page, Deadline deadline) {
  StandstillWatch watch(memory_.fabric(), memory_.lease());
  for (Pauses pauses(memory_.fabric());;) {
    Location place;
    if (const Status looked = look({&page, 1}, {&place, 1}, deadline); !looked.done()) return looked;
    if (!place.moving) return {};
    if (watch.stands_still(place.word())) {
      const Result<std::uint64_t> broken =
          channel_.compare_swap(memory_.place(page), place.word(), place.left_alone().word(), deadline);
      if (!broken.done()) return status_at_homes({&page, 1}, broken.status);
      continue;
    }
    if (!pauses.sleep(deadline)) return {Outcome::timed_out, {}};
  }
}

}  // namespace farside::gas
