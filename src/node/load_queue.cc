#include "node/load_queue.h"

#include <algorithm>
#include <utility>

#include "farside/cache/time_limits.h"

#include "base/assert.h"

namespace farside::node {

LoadQueue::Admitted LoadQueue::take_in(Visit& visit, const cache::BlockKey& key, Time now) {
  const MutexLock lock(mutex_);
  const auto load = find(key);
  if (under_way_.size() < kMaxLoads && load == under_way_.end()) {
    return {Admission::begun, begin({std::move(visit), key, now}, now)};
  }
  const bool is_stuck = under_way_.size() == kMaxLoads && now - last_change_ >= cache::time_limits::kTurn;
  const bool is_late = load != under_way_.end() && load->answered;
  if (is_stuck || is_late || waiting_.size() >= kMaxWaiting) return {Admission::busy, std::nullopt};
  assert_that(!under_way_.empty(), "while a request waits, another is under way, whose thread takes it next");
  waiting_.push_back({std::move(visit), key, now});
  return {Admission::waiting, std::nullopt};
}

bool LoadQueue::end(const Turn& turn, Time now) {
  const MutexLock lock(mutex_);
  const bool is_wanted = !turn.place->answered;
  under_way_.erase(turn.place);
  last_change_ = now;
  return is_wanted;
}

void LoadQueue::postpone(Turn turn, Time now) {
  const MutexLock lock(mutex_);
  const UnderWay was = *turn.place;
  under_way_.erase(turn.place);
  last_change_ = now;
  if (!was.answered) waiting_.push_back({std::move(turn.visit), was.key, was.arrived, true});
}

std::optional<LoadQueue::Turn> LoadQueue::next(Time now) {
  const MutexLock lock(mutex_);
  if (under_way_.size() == kMaxLoads) return std::nullopt;
  const auto found =
      std::ranges::find_if(waiting_, [this](const Waiting& one) REQUIRES(mutex_) { return !is_under_way(one.key); });
  if (found == waiting_.end()) return std::nullopt;
  Waiting chosen = std::move(*found);
  waiting_.erase(found);
  return begin(std::move(chosen), now);
}

std::vector<int> LoadQueue::take_late(Time now) {
  std::vector<int> late;
  const MutexLock lock(mutex_);
  for (UnderWay& one : under_way_) {
    if (one.answered || now - one.arrived < cache::time_limits::kAnswer) continue;
    one.answered = true;
    late.push_back(one.client);
  }
  std::erase_if(waiting_, [&](const Waiting& one) REQUIRES(mutex_) {
    const Duration limit = one.begun || is_under_way(one.key) ? cache::time_limits::kAnswer : cache::time_limits::kTurn;
    const bool is_late = now - one.arrived >= limit;
    if (is_late) late.push_back(one.visit.client);
    return is_late;
  });
  return late;
}

bool LoadQueue::wait_while_idle() {
  MutexLock lock(mutex_);
  changed_.wait(lock, [this]() REQUIRES(mutex_) { return closed_ || !under_way_.empty(); });
  return !closed_;
}

void LoadQueue::close() {
  const MutexLock lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

std::list<LoadQueue::UnderWay>::const_iterator LoadQueue::find(const cache::BlockKey& key) const {
  return std::ranges::find_if(under_way_, [&key](const UnderWay& one) { return one.key == key; });
}

bool LoadQueue::is_under_way(const cache::BlockKey& key) const { return find(key) != under_way_.end(); }

LoadQueue::Turn LoadQueue::begin(Waiting waiting, Time now) {
  assert_that(under_way_.size() < kMaxLoads, "at most kMaxLoads loads are under way");
  assert_that(!is_under_way(waiting.key), "a block is loaded by one thread at a time");
  last_change_ = now;
  under_way_.push_back({waiting.visit.client, waiting.key, waiting.arrived});
  changed_.notify_all();
  return {std::prev(under_way_.end()), std::move(waiting.visit)};
}

}  // namespace farside::node
