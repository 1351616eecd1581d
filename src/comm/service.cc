#include "comm/service.h"

#include <utility>

namespace farside {

namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kBell = 0;
constexpr std::uint64_t kFinished = 0;
constexpr Duration kPatience = 60s;      // with one task
constexpr Duration kNap = 1s;            // between two looks whether the thread is to stop
constexpr std::size_t kFailures = 1024;  // that are remembered: who waits for an older one takes it for done

}  // namespace

Service::Service(Team& team)
    : team_(team),
      bells_(team.allocate("bells", 8)),
      results_(team.allocate("finished", 8)),
      thread_([this](const std::stop_token& stop) { serve(stop); }) {}

Service::~Service() {
  thread_.request_stop();
  const auto channel = team_.fabric().open_channel();
  (void)ring(*channel, team_.rank(), team_.fabric().in(kNap));  // if it does not hear, its nap ends soon
}

LocalWord<ControlWord> Service::finished_word() const { return results_->local().word<ControlWord>(kFinished); }

std::uint64_t Service::issue(Channel& channel, Comm::Task task) {
  std::uint64_t number = 0;
  {
    const std::scoped_lock lock(mutex_);
    number = ++issued_;
    tasks_.push_back({number, std::move(task), {}});
  }
  (void)ring(channel, team_.rank(), team_.fabric().in(kNap));  // as above
  return number;
}

std::uint64_t Service::issued() const { return issued_; }

// What is issued later is not asked about.
bool Service::idle() const { return finished_ >= issued_; }

bool Service::finished(std::uint64_t number) const { return finished_ >= number; }

Ended Service::wait(Channel& channel, std::uint64_t number, Deadline deadline) const {
  if (number == 0) return {};
  const auto is_finished = [number](std::uint64_t finished) { return finished >= number; };
  const Outcome waited = channel.wait_until(results_->local(), finished_word(), is_finished, deadline);
  if (waited != Outcome::done) return {waited, {}};
  const std::scoped_lock lock(mutex_);
  const auto failure = failures_.find(number);
  return failure == failures_.end() ? Ended{} : failure->second;
}

void Service::on_ring(std::function<void(Channel&)> work) {
  {
    const std::scoped_lock lock(mutex_);
    on_ring_.push_back(std::move(work));
  }
  (void)ring(*team_.fabric().open_channel(), team_.rank(), team_.fabric().in(kNap));  // others may have rung already
}

Outcome Service::ring(Channel& channel, Rank rank, Deadline deadline) const {
  return channel.add_signal(bells_->of(rank).word<AtomicWord>(kBell), 1, deadline).outcome;
}

void Service::serve(const std::stop_token& stop) {
  const auto channel = team_.fabric().open_channel();
  const auto bell = bells_->local().word<AtomicWord>(kBell);
  while (!stop.stop_requested()) {
    const std::uint64_t heard = bell.load();  // before anything is looked for: what comes later rings again
    std::vector<std::function<void(Channel&)>> works;
    {
      const std::scoped_lock lock(mutex_);
      works = on_ring_;
    }
    for (const auto& work : works) work(*channel);
    if (do_next(*channel)) continue;  // who rang meanwhile is looked after before the next task
    // A time-out is one more reason to look.
    (void)channel->wait_until(
        bells_->local(), bell, [heard](std::uint64_t now) { return now != heard; }, team_.fabric().in(kNap));
  }
}

// False when there is nothing to do, or the next task waits.
bool Service::do_next(Channel& channel) {
  Issued next;
  {
    const std::scoped_lock lock(mutex_);
    if (tasks_.empty()) return false;
    next = std::move(tasks_.front());
    tasks_.pop_front();
  }
  if (!next.deadline) next.deadline = team_.fabric().in(kPatience);
  const std::optional<Ended> ended = next.task(channel, *next.deadline);
  if (!ended) {
    const std::scoped_lock lock(mutex_);
    tasks_.push_front(std::move(next));
    return false;
  }
  note_end(next.number, *ended);
  (void)channel.write_signal(results_->of(team_.rank()).word<ControlWord>(kFinished), next.number,
                             team_.fabric().in(kNap));  // to this process itself
  return true;
}

void Service::note_end(std::uint64_t number, const Ended& ended) {
  const std::scoped_lock lock(mutex_);
  finished_ = number;
  if (ended.done()) return;
  failures_[number] = ended;
  if (failures_.size() > kFailures) failures_.erase(failures_.begin());
}

}  // namespace farside
