#include "sim/explore.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <boost/dynamic_bitset.hpp>

namespace farside::sim {

namespace {

struct Touch {
  std::uint64_t place;
  bool stores;
};
using Touches = std::vector<Touch>;

// One step of the schedule that is being tried.
struct Step {
  std::uint64_t number = 0;  // names it in every schedule that begins with the same steps
  bool passes_time = false;  // has to do with everything
  Touches touches;
  boost::dynamic_bitset<> before;          // the earlier steps that had to come before it
  std::vector<std::uint64_t> ready;        // what could have happened instead
  std::set<std::uint64_t> to_try;          // of these: what is to be tried here
  std::map<std::uint64_t, Touches> tried;  // what need not be tried here: it was, or it was where this began
};

class Explorer final : public Chooser {
 public:
  // Whether there is another schedule; if so, the next run goes through it.
  bool next_schedule();
  // Says how the steps of the schedule that was run depend on each other, and what is to be tried because of it.
  void end_schedule();
  // Whether all that is left of the schedule was tried elsewhere.
  [[nodiscard]] bool cut_short() const { return cut_short_; }

  std::optional<std::uint64_t> choose(std::span<const std::uint64_t> ready) override;
  void time_passes() override;
  void made(std::uint64_t number) override {
    if (entered_ != 0) makers_[number] = running_;
  }
  void touched(std::uint64_t place, Access access) override;

 private:
  [[nodiscard]] bool is_new() const { return running_ + 1 >= known_; }
  [[nodiscard]] bool depend(const Touches& a, const Touches& b) const;
  [[nodiscard]] bool depend(const Step& a, const Step& b) const {
    return a.passes_time || b.passes_time || depend(a.touches, b.touches);
  }
  void order(std::size_t later);
  static bool take_another_step(Step& last);
  void try_the_other_way_round(std::size_t earlier, std::size_t later);

  std::vector<Step> schedule_;
  std::size_t known_ = 0;    // so many steps are as in the schedule before; the last of them is another one
  std::size_t entered_ = 0;  // steps of the present run
  std::size_t running_ = 0;  // the present one
  std::unordered_map<std::uint64_t, std::size_t> makers_;  // by step: the one that made it
  std::unordered_set<std::uint64_t> changing_;             // places that some schedule changes
  bool changing_grew_ = false;
  bool cut_short_ = false;
};

std::optional<std::uint64_t> Explorer::choose(std::span<const std::uint64_t> ready) {
  running_ = entered_++;
  if (running_ < known_) return schedule_[running_].number;

  Step step;
  step.ready.assign(ready.begin(), ready.end());
  if (running_ > 0) {
    // Steps that were tried where the last step was chosen, and are independent of it, were tried here as well.
    const Step& last = schedule_[running_ - 1];
    for (const auto& [number, touches] : last.tried) {
      if (!last.passes_time && !depend(touches, last.touches)) step.tried.emplace(number, touches);
    }
  }
  const auto chosen = std::ranges::find_if(step.ready, [&](auto number) { return !step.tried.contains(number); });
  cut_short_ = chosen == step.ready.end();
  if (cut_short_) return std::nullopt;
  step.number = *chosen;
  step.to_try.insert(*chosen);
  schedule_.push_back(std::move(step));
  return *chosen;
}

void Explorer::time_passes() {
  running_ = entered_++;
  if (running_ < known_) return;
  Step step;
  step.passes_time = true;
  schedule_.push_back(std::move(step));
}

void Explorer::touched(std::uint64_t place, Access access) {
  if (entered_ == 0) return;
  if (access == Access::change) changing_grew_ |= changing_.insert(place).second;
  if (is_new()) schedule_[running_].touches.push_back({place, access != Access::look});
}

bool Explorer::depend(const Touches& a, const Touches& b) const {
  return std::ranges::any_of(a, [&](const Touch& one) {
    return changing_.contains(one.place) && std::ranges::any_of(b, [&](const Touch& other) {
             return one.place == other.place && (one.stores || other.stores);
           });
  });
}

void Explorer::end_schedule() {
  for (std::size_t step = known_ == 0 ? 0 : known_ - 1; step < schedule_.size(); ++step) order(step);
}

void Explorer::order(std::size_t later) {
  Step& step = schedule_[later];
  step.before = boost::dynamic_bitset<>(later);
  const auto follows = [&](std::size_t earlier) {
    boost::dynamic_bitset<> theirs = schedule_[earlier].before;
    theirs.resize(later);
    step.before |= theirs;
    step.before.set(earlier);
  };
  if (const auto maker = makers_.find(step.number); !step.passes_time && maker != makers_.end()) follows(maker->second);
  for (std::size_t earlier = later; earlier-- > 0;) {
    if (step.before.test(earlier) || !depend(schedule_[earlier], step)) continue;
    follows(earlier);
    try_the_other_way_round(earlier, later);
  }
}

// To have `later` come first, begin, where `earlier` was chosen, with a step that neither needs `earlier` nor anything
// that comes in between and leads to `later`.
void Explorer::try_the_other_way_round(std::size_t earlier, std::size_t later) {
  std::vector<std::size_t> independent;
  for (std::size_t step = earlier + 1; step <= later; ++step) {
    if (step == later || !schedule_[step].before.test(earlier)) independent.push_back(step);
  }
  Step& where = schedule_[earlier];
  std::optional<std::uint64_t> first;
  for (const std::size_t step : independent) {
    const auto comes_before = [&](std::size_t other) { return other < step && schedule_[step].before.test(other); };
    if (std::ranges::any_of(independent, comes_before)) continue;
    const std::uint64_t number = schedule_[step].number;
    if (std::ranges::find(where.ready, number) == where.ready.end()) continue;
    if (where.to_try.contains(number)) return;
    if (!first) first = number;
  }
  if (first) where.to_try.insert(*first);
}

// Whether something else is to be tried in place of `last`; if so, it is that now.
bool Explorer::take_another_step(Step& last) {
  last.tried.emplace(last.number, std::move(last.touches));
  last.touches.clear();
  const auto next = std::ranges::find_if(last.to_try, [&](auto number) { return !last.tried.contains(number); });
  if (last.passes_time || next == last.to_try.end()) return false;
  last.number = *next;
  return true;
}

bool Explorer::next_schedule() {
  if (std::exchange(changing_grew_, false)) {
    schedule_.clear();  // what was taken for independent was not: start over
  } else {
    while (!schedule_.empty() && !take_another_step(schedule_.back())) schedule_.pop_back();
    if (schedule_.empty()) return false;
  }
  known_ = schedule_.size();
  entered_ = 0;
  running_ = 0;
  makers_.clear();
  cut_short_ = false;
  return true;
}

}  // namespace

Exploration explore(const SmallProgram& program, std::uint64_t most_schedules) {
  Exploration found;
  Explorer explorer;
  do {
    found.violation = program(explorer);
    explorer.end_schedule();
    if (explorer.cut_short()) {
      found.violation.reset();  // it was looked at half-way
    } else {
      ++found.schedules;
    }
    if (found.violation || found.schedules >= most_schedules) return found;
  } while (explorer.next_schedule());
  found.complete = true;
  return found;
}

}  // namespace farside::sim
