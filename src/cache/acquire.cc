#include "cache/acquire.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "farside/cache/time_limits.h"

#include "base/assert.h"
#include "cache/pause.h"

namespace farside::cache {

namespace {

Deadline earlier(Deadline a, Deadline b) { return a.at < b.at ? a : b; }
Deadline later(Deadline a, Deadline b) { return a.at < b.at ? b : a; }

}  // namespace

Acquired Acquirer::acquire(Channel& channel, const BlockKey& key, BlockSource& source, std::uint64_t new_token,
                           Deadline deadline, LoaderWatch* watch) {
  Pause pause(team_.fabric());
  do {
    const auto found = slot_index_.look(key);
    if (const auto* here = std::get_if<SlotIndex::Here>(&found)) {
      return {Acquired::Answer::here, here->slot, here->token};
    }
    if (std::holds_alternative<SlotIndex::Yours>(found)) return fetch(channel, key, source, new_token, deadline, watch);
  } while (pause.wait_before(deadline));
  return {Acquired::Answer::late, 0, 0};
}

Acquired Acquirer::fetch(Channel& channel, const BlockKey& key, BlockSource& source, std::uint64_t new_token,
                         Deadline deadline, LoaderWatch* watch) {
  std::optional<std::uint32_t> slot;
  try {
    slot = discarder_.take_slot(channel, deadline);
    if (!slot) {
      slot_index_.given_up(key);
      return {Acquired::Answer::late, 0, 0};
    }
    const Acquired::Answer answer = fill({channel, key, source, block_id(key), *slot, new_token, deadline, watch});
    if (answer == Acquired::Answer::here) {
      slot_index_.arrived(key, {*slot, new_token}, team_.fabric().now());
    } else {
      slot_index_.give_back(*slot);
      slot_index_.given_up(key);
    }
    return {answer, *slot, new_token};
  } catch (...) {
    if (slot) {
      slots_.retract(channel, *slot);  // it may have been published
      slot_index_.give_back(*slot);
    }
    slot_index_.given_up(key);
    throw;
  }
}

Acquired::Answer Acquirer::fill(const Request& request) {
  Pause pause(team_.fabric());
  LoaderWatch own;
  LoaderWatch& watch = request.watch != nullptr ? *request.watch : own;
  const Deadline come_again = team_.fabric().in(cache::time_limits::kLoadElsewhere);
  do {
    auto row = directory_.find_or_claim(request.channel, request.id, request.deadline);
    const Step step = row ? try_once(request, *row, watch) : bring_unlisted(request);
    if (step == Step::failed) return Acquired::Answer::failed;
    if (step == Step::done) {
      alternative_.record(request.channel, request.id, {team_.rank(), request.slot}, to_settle(request));
      return Acquired::Answer::here;
    }
    const bool may_leave = request.watch != nullptr && team_.fabric().now() >= come_again.at;
    if (step == Step::elsewhere && may_leave) return Acquired::Answer::elsewhere;
  } while (pause.wait_before(request.deadline));
  return Acquired::Answer::late;
}

Acquirer::Step Acquirer::try_once(const Request& request, Row& row, LoaderWatch& watch) {
  const Cell mine = row.cell(group_);
  switch (mine.state) {
    case Cell::State::loaded:
      if (!slots_.reachable(mine.place())) break;  // a dead node's: no other node will ever change it
      if (const Copied copied = copy_from_any(request, row); copied.done) {
        publish(request);
        // Another group helped. Left as it is, our cell would name no copy for as long as other groups can help.
        if (copied.group_lacks_it) {
          const Cell loaded = mine.loaded_at({team_.rank(), request.slot});
          (void)directory_.change(request.channel, row, group_, loaded, request.deadline);
        }
        return Step::done;
      }
      // The nodes that had the block dropped it since the row was read, and the cell changes soon; or it never will.
      if (std::exchange(watch.word, mine.word()) != mine.word()) return Step::again;
      break;
    case Cell::State::loading:
      if (!loader_is_gone(mine, watch)) return Step::elsewhere;
      break;
    case Cell::State::invalid: break;
  }
  const Cell loading = mine.loading_at({team_.rank(), request.slot});
  if (!directory_.change(request.channel, row, group_, loading, request.deadline)) return Step::again;
  return represent(request, row);
}

Acquirer::Step Acquirer::bring_unlisted(const Request& request) {
  if (!copy_from_alternative(request) && !load(request)) return Step::failed;
  publish(request);
  return Step::done;
}

Acquirer::Step Acquirer::represent(const Request& request, Row& row) {
  const Cell loading = row.cell(group_);
  assert_that(loading.state == Cell::State::loading && loading.names({team_.rank(), request.slot}),
              "a representative's row says that this node loads the block");
  const Cell loaded = loading.loaded_at({team_.rank(), request.slot});
  if (!rules_.cell_follows_bytes) (void)directory_.change(request.channel, row, group_, loaded, request.deadline);
  if (!rules_.token_follows_bytes) publish(request);
  const Leases::Ticket lease = leases_.begin(row);
  bool is_here = false;
  try {
    is_here = copy_from_any(request, row).done || copy_from_alternative(request) || load(request);
  } catch (...) {
    (void)leases_.end(lease, to_settle(request));
    throw;
  }
  if (is_here) publish(request);
  settle(request, leases_.end(lease, to_settle(request)), is_here);
  return is_here ? Step::done : Step::failed;
}

// Turns our cell into what follows. A node that took our place while we were slow has changed the cell; our copy is
// then one more in the group.
void Acquirer::settle(const Request& request, Leases::Load known, bool is_here) const {
  const auto change = [&](const Cell& from) {
    const Cell to = is_here ? from.loaded_at({team_.rank(), request.slot}) : from.invalidated();
    return directory_.change(request.channel, known.row, group_, to, to_settle(request));
  };
  if (change(known.row.cell(group_)) || !known.in_doubt) return;
  known.row.cells[group_] = known.in_doubt->word();
  (void)change(*known.in_doubt);
}

// A load may have taken longer than its caller waits; the block is then here all the same.
Deadline Acquirer::to_settle(const Request& request) const {
  return later(request.deadline, team_.fabric().in(cache::time_limits::kPeer));
}

Acquirer::Copied Acquirer::copy_from_any(const Request& request, const Row& row) {
  std::vector<std::uint32_t> groups;
  for (std::uint32_t group = 0; group < row.cells.size(); ++group) {
    const Cell cell = row.cell(group);
    if (cell.state == Cell::State::loaded && cell.rank != team_.rank()) groups.push_back(group);
  }
  Copied copied;
  while (!groups.empty()) {
    std::swap(groups[team_.fabric().random() % groups.size()], groups.back());
    const std::uint32_t group = groups.back();
    copied.done = copy_from(request, row.cell(group).place());
    if (copied.done) return copied;
    copied.group_lacks_it |= group == group_;
    groups.pop_back();
  }
  return copied;
}

// A copy that no row names: its row went with its home, or names a copy that was lost.
bool Acquirer::copy_from_alternative(const Request& request) {
  const auto place = alternative_.find(request.channel, request.id, request.deadline);
  return place && place->rank != team_.rank() && copy_from(request, *place);
}

// One copy from a peer that is stopped must not use up the whole deadline.
bool Acquirer::copy_from(const Request& request, Place place) {
  assert_that(place.rank != team_.rank(), "a node copies a block from another node");
  const Deadline deadline =
      earlier(request.deadline, team_.fabric().in(cache::time_limits::copy(geometry_.block_length(request.key))));
  if (!slots_.copy(request.channel, request.key, place, request.slot, deadline)) return false;
  slot_index_.count_from_peer(geometry_.block_length(request.key));
  return true;
}

bool Acquirer::load(const Request& request) {
  const std::uint64_t bytes = request.source.load(request.key, slots_.data(request.slot));
  if (bytes != geometry_.block_length(request.key)) return false;
  slot_index_.count_from_file(bytes);
  return true;
}

bool Acquirer::loader_is_gone(const Cell& cell, LoaderWatch& watch) {
  const Time now = team_.fabric().now();
  if (std::exchange(watch.word, cell.word()) != cell.word()) watch.since = now;
  // This node loads a block in one thread at a time, and that is this one: a cell that says otherwise is of the past.
  const bool left_by_us = cell.rank == team_.rank();
  const bool waited = !rules_.lease_is_waited_for || now - watch.since >= loading_lease_;
  const bool silent = rules_.lease_expires && waited;
  return left_by_us || !slots_.reachable(cell.place()) || silent;
}

void Acquirer::publish(const Request& request) {
  slots_.publish(request.channel, request.slot, request.key, geometry_.block_length(request.key), request.token);
}

}  // namespace farside::cache
