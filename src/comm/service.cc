#include "comm/service.h"

#include <algorithm>
#include <utility>

#include "farside/base/error.h"

#include "base/assert.h"
#include "comm/thrown.h"
#include "comm/time_limits.h"

namespace farside::comm {

namespace {

constexpr std::uint64_t kBell = 0;
constexpr std::uint64_t kFinished = 0;
constexpr std::size_t kCopiesAtOnce = 64;
constexpr std::uint64_t kBytesAtOnce = 1U << 20U;  // so that the notice of a small one does not wait for a large one

// So that a waiter ends soon after its deadline, and the queue's lock is free again.
constexpr std::size_t kMaxPartsOfAWaiter = 1024;

}  // namespace

class Service::Working {
 public:
  explicit Working(Service& service) REQUIRES(service.mutex_) : service_(service) {
    assert_that(!service.is_worked_, "one thread at a time is the worker");
    service.is_worked_ = true;
  }
  ~Working() {
    const MutexLock lock(service_.mutex_);
    service_.is_worked_ = false;
  }
  Working(const Working&) = delete;
  Working& operator=(const Working&) = delete;

 private:
  Service& service_;
};

Service::Service(team::Team& team)
    : team_(team),
      bells_(team.allocate("bells", 8)),
      results_(team.allocate("finished", 8)),
      thread_([this](const std::stop_token& stop) { serve(stop); }) {}

Service::~Service() {
  {
    const MutexLock lock(mutex_);
    stop_by_ = team_.fabric().in(comm::time_limits::kBackground);
  }
  thread_.request_stop();
  const auto channel = team_.fabric().open_channel();
  (void)ring(*channel, team_.rank(),
             team_.fabric().in(comm::time_limits::kNap));  // if it does not hear, its nap ends soon
}

LocalWord<ControlWord> Service::finished_word() const { return results_->local().word<ControlWord>(kFinished); }

Request Service::issue(Channel& channel, Work work) {
  std::uint64_t number = 0;
  bool sleeps = false;
  {
    const MutexLock lock(mutex_);
    tasks_.push_back({std::move(work), {}});  // may throw: then nothing was issued
    number = ++issued_;
    sleeps = std::exchange(found_nothing_, false);
  }
  if (sleeps) (void)ring(channel, team_.rank(), team_.fabric().in(comm::time_limits::kNap));  // as above
  return {number, number};
}

std::uint64_t Service::issued() const { return issued_; }

// Requests that are issued later do not count.
bool Service::idle() const { return finished_ >= issued_; }

bool Service::finished(const Request& request) const { return request.none() || finished_ >= request.last; }

Status Service::wait(Channel& channel, const Request& request, Deadline deadline) {
  if (request.none()) return {};
  if (is_this_thread() && !finished(request)) refuse_wait("operations in the background");
  while (!finished(request) && team_.fabric().now() < deadline.at && do_own(channel, request.last)) continue;
  if (!finished(request)) {
    const auto is_finished = [last = request.last](std::uint64_t finished) { return finished >= last; };
    const Outcome waited = channel.wait_until(results_->local(), finished_word(), is_finished, deadline);
    if (waited != Outcome::done) return {waited, {}};
  }
  const MutexLock lock(mutex_);
  return failures_.first_of(request);
}

void Service::refuse_wait(const char* for_what) {
  throw UsageError({"wait for", for_what, "this is the service thread, which does what it would wait for",
                    "begin it in the handler or the task, and wait for it on another thread"});
}

void Service::on_ring(std::function<void(Channel&)> work) {
  {
    const MutexLock lock(mutex_);
    on_ring_.push_back(std::move(work));
  }
  (void)ring(*team_.fabric().open_channel(), team_.rank(),
             team_.fabric().in(comm::time_limits::kNap));  // others may have rung already
}

Outcome Service::ring(Channel& channel, team::Rank rank, Deadline deadline) const {
  return channel.add_signal(bells_->of(rank).word<AtomicWord>(kBell), 1, deadline).status;
}

void Service::serve(const std::stop_token& stop) {
  const auto channel = team_.fabric().open_channel();
  while (!stop.stop_requested()) {
    const std::exception_ptr error = thrown_by([&] { serve_once(*channel); });
    if (error == nullptr) continue;
    log_.warn("comm: the service thread goes on after: " + text_of(error));
    team_.fabric().sleep(comm::time_limits::kNap);  // memory may be short
  }
}

void Service::serve_once(Channel& channel) {
  const auto bell = bells_->local().word<AtomicWord>(kBell);
  const std::uint64_t heard = bell.load();  // before anything is looked for: what comes later rings again
  do_on_ring(channel);
  if (do_next(channel)) return;  // a call that came meanwhile is served before the next task
  // A time-out is one more reason to look.
  (void)channel.wait_until(
      bells_->local(), bell, [heard](std::uint64_t now) { return now != heard; },
      team_.fabric().in(comm::time_limits::kNap));
}

void Service::do_on_ring(Channel& channel) {
  std::vector<std::function<void(Channel&)>> works;
  {
    const MutexLock lock(mutex_);
    works = on_ring_;
  }
  for (const auto& work : works) {
    const std::exception_ptr error = thrown_by([&] { work(channel); });
    if (error != nullptr) log_.warn("comm: work that is done after each ring threw: " + text_of(error));
  }
}

// False when there is nothing to do, the next task waits, or a waiter is at work, which rings when it leaves something.
bool Service::do_next(Channel& channel) {
  std::optional<Working> working;
  std::vector<Copy> copies;
  Issued* task = nullptr;
  {
    const MutexLock lock(mutex_);
    found_nothing_ = tasks_.empty() || is_worked_;
    if (is_worked_) return false;
    working.emplace(*this);
    copies = take_copies(issued_, [](const Copy&) { return true; });
    if (copies.empty() && !tasks_.empty()) task = &tasks_.front();  // others only add behind it
    assert_that(task == nullptr || std::holds_alternative<Comm::Task>(task->work), "a copy that is next is taken");
  }
  const bool is_done = task != nullptr ? do_task(channel, *task) : !copies.empty();
  if (!copies.empty()) do_copies(channel, copies);
  tell(channel);
  return is_done;
}

// False when it waits.
bool Service::do_task(Channel& channel, Issued& task) {
  if (!task.deadline) task.deadline = next_deadline();
  std::optional<Status> status;
  const std::exception_ptr error =
      thrown_by([&] { status = std::get<Comm::Task>(task.work)(channel, *task.deadline); });
  if (!status && error == nullptr) return false;
  remove_first();
  error == nullptr ? note_ends({&*status, 1}) : note_thrown(1, error);
  return true;
}

// A waiter makes copies of mapped memory alone, which never wait for the peer.
bool Service::is_for_a_waiter(const Copy& copy) const {
  if (copy.parts.size() > kMaxPartsOfAWaiter || copy.bytes() > kPieceBytes || !is_mapped(copy.notice)) return false;
  return std::ranges::all_of(copy.parts, [this](const Part& part) {
    return is_mapped(*part.remote.region) && team_.fabric().reaches_by_memory(peer_of(part));
  });
}

// By a channel of their own: a flush of the caller's would take up what became of its other writes. The caller's tells
// the waiters.
bool Service::do_own(Channel& channel, std::uint64_t last) {
  {
    std::optional<Working> working;
    std::vector<Copy> copies;
    {
      const MutexLock lock(mutex_);
      if (is_worked_) return false;
      copies = take_copies(last, [this](const Copy& copy) { return is_for_a_waiter(copy); });
      if (copies.empty()) return false;
      working.emplace(*this);
    }
    do_copies(*team_.fabric().open_channel(), copies);
    tell(channel);
  }
  bool leaves_some = false;
  {
    const MutexLock lock(mutex_);
    leaves_some = !tasks_.empty();
    if (leaves_some) found_nothing_ = false;
  }
  if (leaves_some) (void)ring(channel, team_.rank(), team_.fabric().in(comm::time_limits::kNap));
  return true;
}

// A copy that a rank did not answer takes with it what was issued for that rank before it ended: each of those would
// hold up what goes to others for another minute. What is issued for it later holds them up for a second.
void Service::do_copies(Channel& channel, std::span<const Copy> copies) {
  Made made;
  const std::exception_ptr error = thrown_by([&] {
    made = make(channel, copies);
    assert_that(made.status.size() == copies.size(), "each copy has ended in some way");
    for (std::size_t at = 0; !given_up_.empty() && at < copies.size(); ++at) {
      if (!made.status[at].done()) continue;
      for (const Part& part : copies[at].parts) given_up_.erase(peer_of(part));
      if (const std::optional<team::Rank> told = target_of(copies[at].notice)) given_up_.erase(*told);
    }
    for (const team::Rank rank : made.silent) given_up_[rank] = issued_;
  });
  error == nullptr ? note_ends(made.status) : note_thrown(copies.size(), error);
}

Made Service::make(Channel& channel, std::span<const Copy> copies) const {
  const Standing of_all = standing(copies.front(), 0);
  if (of_all == Standing::given_up) return {std::vector<Status>(copies.size(), {Outcome::timed_out, {}}), {}};
  const NextDeadline next = [this, of_all] {
    const Deadline usual = next_deadline();
    if (of_all == Standing::good) return usual;
    return Deadline{std::min(usual.at, team_.fabric().in(comm::time_limits::kStep).at)};
  };
  if (copies.size() == 1 && copies.front().bytes() > kPieceBytes) {
    return make_in_pieces(channel, copies.front(), next);
  }
  return make_copies(channel, copies, next);
}

Service::Standing Service::standing(const Copy& copy, std::size_t ahead) const {
  if (given_up_.empty()) return Standing::good;
  const auto of_rank = [&, number = finished_ + 1 + ahead](team::Rank rank) {
    const auto last = given_up_.find(rank);
    if (last == given_up_.end()) return Standing::good;
    return number <= last->second ? Standing::given_up : Standing::unanswered;
  };
  const std::optional<team::Rank> told = target_of(copy.notice);
  Standing worst = told ? of_rank(*told) : Standing::good;
  for (const Part& part : copy.parts) worst = std::max(worst, of_rank(peer_of(part)));
  return worst;
}

Deadline Service::next_deadline() const {
  const Deadline next = team_.fabric().in(comm::time_limits::kBackground);
  const MutexLock lock(mutex_);
  return stop_by_ && stop_by_->at < next.at ? *stop_by_ : next;
}

// Those that are next, as long as they have one standing.
template <class MayTake>
std::vector<Copy> Service::take_copies(std::uint64_t last, MayTake may_take) {
  std::vector<Copy> copies;
  copies.reserve(std::min(kCopiesAtOnce, tasks_.size()));  // here alone it may throw: nothing was taken
  std::uint64_t bytes = 0;
  Standing of_all = Standing::good;
  while (!tasks_.empty() && copies.size() < kCopiesAtOnce) {
    auto* const copy = std::get_if<Copy>(&tasks_.front().work);
    if (copy == nullptr || finished_ + copies.size() >= last || !may_take(*copy)) break;
    const Standing of_copy = standing(*copy, copies.size());
    if (!copies.empty() && of_copy != of_all) break;
    of_all = of_copy;
    bytes += copy->bytes();
    if (!copies.empty() && bytes > kBytesAtOnce) break;
    copies.push_back(std::move(*copy));
    tasks_.pop_front();
  }
  return copies;
}

void Service::remove_first() {
  Issued over;  // goes when the mutex is free again: it may own much
  const MutexLock lock(mutex_);
  assert_that(!tasks_.empty(), "only the worker takes tasks away");
  over = std::move(tasks_.front());
  tasks_.pop_front();
}

void Service::note_ends(std::span<const Status> ends) {
  const MutexLock lock(mutex_);
  for (const Status& status : ends) {
    if (!status.done()) failures_.add(finished_ + 1, status);  // before it has finished
    ++finished_;
  }
}

void Service::note_thrown(std::size_t count, const std::exception_ptr& error) {
  const MutexLock lock(mutex_);
  for (std::size_t each = 0; each < count; ++each) {
    failures_.add_thrown(finished_ + 1, error);
    ++finished_;
  }
}

// A process that reaches itself through a network first needs a connection. A number that does not get through is told
// again after the next nap: a waiter looks at nothing else.
void Service::tell(Channel& channel) {
  const std::uint64_t last = finished_;
  assert_that(told_ <= last && last <= issued_, "what the waiters are told has finished, and that was issued");
  if (told_ == last) return;
  const auto word = results_->of(team_.rank()).word<ControlWord>(kFinished);
  const Deadline deadline = team_.fabric().in(comm::time_limits::kBackground);
  Outcome told = channel.write_signal(word, last, deadline);
  if (told == Outcome::done) told = channel.flush(team_.rank(), deadline);  // it may be the last for long
  if (told == Outcome::done) told_ = last;
}

}  // namespace farside::comm
