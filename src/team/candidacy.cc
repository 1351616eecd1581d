#include "team/candidacy.h"

#include <utility>

#include "farside/base/error.h"
#include "farside/base/log.h"

#include "authority/office_store.h"
#include "base/assert.h"
#include "base/signals_held.h"
#include "net/socket.h"
#include "team/liveness.h"

namespace farside::team {

using authority::Tenure;

namespace {

constexpr std::uint32_t kLooksToSkip = 20;  // after a failure to coordinate: another process may be able to

}  // namespace

Candidacy::Candidacy(Settings settings, const net::Secret& secret)
    : settings_(std::move(settings)),
      secret_(secret),
      records_(settings_.open_records()),
      keys_(settings_.pool),
      office_(*records_, keys_) {
  net::listen_on(settings_.address).reset();  // it could
  const auto view = office_.look();
  if (!view) throw Error({"read who coordinates the pool in", records_->name(), records_->why(), "is etcd there?"});
  seen_ = *view;
  if (view->holder) {
    authority::OfficeStore log(settings_.open_records(), keys_, *view->holder, [](auto) { return false; });
    expect_own(log.read(), settings_.terms, settings_.size, records_->name());
  }
  if (is_takeable(*view)) {
    if (const auto held = office_.take(*view, settings_.address)) coordinate(*held);
  }
  thread_ = start_thread([this] { run(); });
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

void Candidacy::leave(const std::vector<Rank>& ended) {
  end();
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
    } catch (const Error& error) {  // a record makes no sense, or this process cannot listen
      log::error(error.what());
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

void Candidacy::keep_office() {
  if (present().has_given_up()) return step_down("its decisions are kept no more");
  const auto sent = Clock::now();
  const Tenure tenure = office_.renew(*held_);
  looks_unanswered_ = tenure == Tenure::unknown ? looks_unanswered_ + 1 : 0;
  if (tenure != Tenure::unknown) confirmed_ = sent;
  switch (tenure) {
    case Tenure::held: return;
    case Tenure::superseded: return step_down("another process has taken over");
    case Tenure::rewound:
      log::warn("the records of the authority were put back to an earlier state: they are written anew");
      return present().rewrite_log();
    case Tenure::unknown:
      // Another process may have taken over, and the members that hear this one do not look for that.
      if (Clock::now() - confirmed_ > settings_.silence) step_down("the authority does not answer: " + records_->why());
      return;
  }
}

void Candidacy::seek_office() {
  const auto view = office_.look();
  if (!view) {
    ++looks_unanswered_;
    return;
  }
  looks_unanswered_ = 0;
  looks_unchanged_ = *view == seen_ ? looks_unchanged_ + 1 : 0;
  seen_ = *view;
  if (looks_to_skip_ != 0) {
    --looks_to_skip_;
    return;
  }
  if (!is_takeable(*view)) return;
  const auto held = office_.take(*view, settings_.address);
  if (!held) return;
  log::warn("this process coordinates the pool from now on");
  coordinate(*held);
}

bool Candidacy::is_takeable(const authority::Office::View& view) const {
  const bool is_vacant = !view.holder || view.holder->address.empty() || view.holder->address == settings_.address;
  return is_vacant || looks_unchanged_ > silent_beats(settings_.silence);
}

void Candidacy::coordinate(const authority::Holder& held) {
  auto store = std::make_unique<authority::OfficeStore>(settings_.open_records(), keys_, held,
                                                        [this](auto duration) { return pause(duration); });
  std::unique_ptr<Coordinator> coordinator;
  try {
    coordinator = std::make_unique<Coordinator>(settings_.address, secret_, settings_.size, settings_.admission,
                                                Coordinator::Log{std::move(store), settings_.terms}, settings_.silence);
  } catch (const Error&) {
    (void)office_.resign(held);
    looks_to_skip_ = kLooksToSkip;
    throw;
  }
  held_ = held;
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
  coordinator.reset();
  held_.reset();
  looks_unchanged_ = 0;
  const MutexLock lock(mutex_);
  steps_down_ = false;
}

}  // namespace farside::team
