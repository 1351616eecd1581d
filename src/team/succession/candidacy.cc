#include "team/succession/candidacy.h"

#include <algorithm>
#include <utility>

#include "farside/base/error.h"
#include "farside/base/log.h"

#include "base/assert.h"
#include "base/signals_held.h"
#include "net/socket.h"
#include "team/decision_log.h"
#include "team/liveness.h"
#include "team/time_limits.h"

namespace farside::team {

using authority::Tenure;

namespace {

constexpr std::uint32_t kLooksToSkip = 20;  // after a failure to coordinate: another process may be able to

}  // namespace

Candidacy::Candidacy(Settings settings, const net::Secret& secret)
    : settings_(std::move(settings)),
      secret_(secret),
      log_terms_(settings_.terms + " --secret=" + secret.mark()),
      records_(settings_.open_records()),
      keys_(settings_.pool),
      office_(*records_, keys_) {
  net::listen_on(settings_.address).reset();  // it could
  look_first();
  thread_ = start_thread([this] { run(); });
}

void Candidacy::look_first() {
  std::optional<authority::Office::View> view;
  const auto until = Clock::now() + time_limits::kFirstAnswer;
  while (!(view = office_.look()) && !settings_.may_wait && Clock::now() < until)
    std::this_thread::sleep_for(time_limits::kBetweenLastLooks);
  if (!view && !settings_.may_wait)
    throw Error(
        {"read who coordinates the pool in", records_->name(), records_->why(), "are the servers of etcd there?"});
  if (!view) return;
  see(*view);
  if (view->holder) expect_own(read_log(*view->holder), log_terms_, settings_.size, records_->name());
  if (is_takeable(*view)) (void)take(*view);
}

std::vector<std::string> Candidacy::read_log(const authority::Holder& holder) {
  return authority::OfficeStore(settings_.open_records(), keys_, holder, [](auto) { return false; }).read();
}

Candidacy::~Candidacy() { end(); }

void Candidacy::end() {
  if (!thread_.joinable()) return;
  {
    const MutexLock lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void Candidacy::report_dead(Rank rank) {
  const MutexLock lock(mutex_);
  if (coordinator_) coordinator_->report_dead(rank);
}

void Candidacy::miss(Rank rank, const std::string& how) {
  const MutexLock lock(mutex_);
  if (coordinator_) coordinator_->miss(rank, how);
}

// When all machines leave at once, none of them may see another one resign: so each that leaves looks for a while.
void Candidacy::leave(const std::vector<Rank>& ended) {
  end();
  try {
    const auto until = Clock::now() + time_limits::kLastLooks;
    while (!held_ && Clock::now() < until) {
      const auto view = office_.look();
      if (!view || !is_any_present(*view, ended)) return;
      if (!view->is_vacant() || !take(*view)) std::this_thread::sleep_for(time_limits::kBetweenLastLooks);
    }
  } catch (const Error& error) {  // another process finds out that these members have left
    log::warn(error.what());
  }
  if (!held_) return;
  std::unique_ptr<Coordinator> coordinator;
  {
    const MutexLock lock(mutex_);
    coordinator = std::move(coordinator_);
  }
  if (coordinator->end_if_deserted(ended)) return;
  coordinator.reset();
  if (!office_.resign(*held_))
    log::warn("another machine coordinates the pool in some seconds only: " + records_->why());
}

bool Candidacy::is_any_present(const authority::Office::View& view, const std::vector<Rank>& ranks) {
  if (!view.holder) return false;
  const std::vector<std::string> log = read_log(*view.holder);
  if (log.empty()) return false;
  const Membership team = read_team(log).team;
  return std::ranges::any_of(ranks, [&team](Rank rank) { return team.is_present(rank); });
}

Coordinator& Candidacy::present() {
  const MutexLock lock(mutex_);
  assert_that(coordinator_ != nullptr, "who holds the office coordinates");
  return *coordinator_;
}

bool Candidacy::pause(std::chrono::milliseconds duration) {
  MutexLock lock(mutex_);
  return !changed_.wait_for(lock, duration, [this]() REQUIRES(mutex_) { return ends_ || steps_down_; });
}

void Candidacy::run() {
  while (pause(kBeatInterval)) {
    try {
      step();
      said_.clear();
    } catch (const Error& error) {  // a record makes no sense, or this process cannot listen
      if (std::exchange(said_, error.what()) != error.what()) log::error(error.what());
    }
  }
}

void Candidacy::step() {
  if (held_) {
    keep_office();
  } else {
    seek_office();
  }
  if (looks_unanswered_ > silent_beats(settings_.silence) && !std::exchange(has_warned_, true)) {
    log::warn(
        "the authority does not answer: deaths on other machines are not noticed, and no process joins, until it "
        "does: " +
        records_->why());
  }
  if (looks_unanswered_ == 0 && std::exchange(has_warned_, false)) log::warn("the authority answers again");
}

// Once it is not sure that it holds the office any more, another process may coordinate, and the members that hear this
// one do not look for that.
void Candidacy::keep_office() {
  if (present().has_given_up()) return step_down("its decisions are kept no more");
  if (const auto why = log_->why_waiting(settings_.silence)) return step_down("a decision is not kept: " + *why);
  if (Clock::now() - confirmed_ > settings_.silence)
    return step_down("the authority does not answer: " + records_->why());
  const auto sent = Clock::now();
  const Tenure tenure = renew();
  looks_unanswered_ = tenure == Tenure::unknown ? looks_unanswered_ + 1 : 0;
  if (tenure != Tenure::unknown) confirmed_ = sent;
  if (tenure == Tenure::superseded) return step_down("another process has taken over");
  if (tenure != Tenure::rewound) return;
  log::warn("the records of the authority were put back to an earlier state: they are written anew");
  present().rewrite_log();
}

// If a log takes the place of another meanwhile, the end of the former is gone with it.
Tenure Candidacy::renew() {
  const auto last = log_->last();
  const Tenure tenure = office_.renew(*held_, last);
  return tenure == Tenure::rewound && log_->last() != last ? office_.renew(*held_) : tenure;
}

void Candidacy::seek_office() {
  const auto view = office_.look();
  if (!view) {
    ++looks_unanswered_;
    return;
  }
  looks_unanswered_ = 0;
  see(*view);
  if (looks_to_skip_ != 0) {
    --looks_to_skip_;
  } else if (is_takeable(*view) && take(*view)) {
    log::warn("this process coordinates the pool from now on");
  }
}

void Candidacy::see(const authority::Office::View& view) {
  looks_unchanged_ = view == seen_ ? looks_unchanged_ + 1 : 0;
  seen_ = view;
  if (view.holder) highest_term_ = std::max(highest_term_, view.holder->term);
}

bool Candidacy::take(const authority::Office::View& view) {
  const auto held = office_.take(view, settings_.address, settings_.owner);
  if (!held) return false;
  std::optional<TeamState> newer = newer_than_log(view);
  highest_term_ = std::max(highest_term_, held->term);
  coordinate(*held, std::move(newer));
  return true;
}

// A snapshot may have been restored while no process coordinated. Then this process has what was decided last, if it
// coordinated last, and otherwise knows only that the log may lack it.
std::optional<TeamState> Candidacy::newer_than_log(const authority::Office::View& view) {
  const std::uint64_t term = view.holder ? view.holder->term : 0;
  if (past_ && past_->term == std::max(term, highest_term_)) return past_->state;
  if (term >= highest_term_) return std::nullopt;
  log::warn(
      "the records of the authority were put back to an earlier state, and this process cannot say what they lack");
  const std::vector<std::string> log = view.holder ? read_log(*view.holder) : std::vector<std::string>{};
  return log.empty() ? std::nullopt : std::optional(rebuilt(read_team(log).team.state()));
}

bool Candidacy::is_takeable(const authority::Office::View& view) const {
  return view.is_vacant() || view.holder->owner == settings_.owner ||
         looks_unchanged_ > silent_beats(settings_.silence);
}

void Candidacy::coordinate(const authority::Holder& held, std::optional<TeamState> newer) {
  auto store = std::make_unique<authority::OfficeStore>(settings_.open_records(), keys_, held,
                                                        [this](auto duration) { return pause(duration); });
  authority::OfficeStore* const log = store.get();
  std::unique_ptr<Coordinator> coordinator;
  try {
    coordinator = std::make_unique<Coordinator>(
        settings_.address, secret_, settings_.size, settings_.admission,
        Coordinator::Log{.store = std::move(store), .terms = log_terms_, .newer = std::move(newer), .ended = {}},
        settings_.silence);
  } catch (const Error&) {
    (void)office_.resign(held);
    looks_to_skip_ = kLooksToSkip;
    throw;
  }
  held_ = held;
  log_ = log;
  confirmed_ = Clock::now();
  const MutexLock lock(mutex_);
  coordinator_ = std::move(coordinator);
}

// As if the coordinator were killed: its members find the next one.
void Candidacy::step_down(const std::string& why) {
  log::warn("this process coordinates the pool no more: " + why);
  std::unique_ptr<Coordinator> coordinator;
  {
    const MutexLock lock(mutex_);
    coordinator = std::move(coordinator_);
    steps_down_ = true;  // a decision of its waits for the authority no longer
    changed_.notify_all();
  }
  past_ = {held_->term, coordinator->take_state()};
  coordinator.reset();
  held_.reset();
  looks_unchanged_ = 0;
  const MutexLock lock(mutex_);
  steps_down_ = false;
}

}  // namespace farside::team
