#include "team/coordinator_client.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "farside/base/error.h"
#include "farside/base/log.h"

#include "base/assert.h"
#include "base/backoff.h"
#include "base/wire.h"
#include "team/liveness.h"
#include "team/time_limits.h"

namespace farside::team {

namespace {

using net::FrameKind;

// Limit of a body that the coordinator sends: all that a rank that has come back gave to 2000 exchanges.
constexpr std::size_t kBodyLimit = 16 << 20;

constexpr const char* kJoin = "join the team at";

}  // namespace

CoordinatorClient::CoordinatorClient(net::EventLoop& loop, const std::string& address, const net::Secret& secret,
                                     Rank rank, MembershipNotices notices, net::SetupClock::time_point deadline)
    : loop_(loop),
      notices_(std::move(notices)),
      finder_(address),
      rank_(rank),
      host_local_(finder_.is_on_one_host()),
      fabric_secret_(secret.for_fabric()),
      session_({}, net::Session::Side::member, kBodyLimit) {
  net::Acquaintance met = meet(secret, deadline);
  session_ = met.session;
  if (met.first.kind == FrameKind::refused)
    throw Error({kJoin, address, Decoder(met.first.fields, "why this process is refused").text(), ""});
  Welcome welcome = decode_welcome(met.first);
  team_ = welcome.team;
  generation_ = welcome.generation;
  size_ = welcome.size;
  incarnation_ = welcome.incarnation;
  standing_ = std::move(welcome.standing);
  silent_beats_ = welcome.silent_beats;
  epoch_ = standing_.epoch;
  lost_ = standing_.lost;
  if (welcome.may_be_back) {
    const auto seat = [this]() -> SeatKeeper::Seat {
      const MutexLock lock(mutex_);
      return {team_, generation_, incarnation_, epoch_};
    };
    const auto answered = [this](net::Acquaintance answer) {
      loop_.post(
          [this, held = std::make_shared<net::Acquaintance>(std::move(answer))] { take_answer(std::move(*held)); });
    };
    keeper_.emplace(finder_, secret, rank_, kBodyLimit, seat, answered);
  }
  loop_.post([this, held = std::make_shared<Fd>(std::move(met.socket))] { start(std::move(*held)); });
}

// A coordinator that the authority named and that does not answer may have a successor by now.
net::Acquaintance CoordinatorClient::meet(const net::Secret& secret, net::SetupClock::time_point deadline) {
  for (Backoff backoff(time_limits::kFirstPauseToKeep, time_limits::kMaxPauseToKeep);;) {
    const auto pause = backoff.next();
    const auto now = net::SetupClock::now();
    try {
      const std::string address = finder_.find();
      auto met = net::introduce({kJoin, address}, secret, rank_, kBodyLimit,
                                finder_.is_fixed() ? deadline : std::min(deadline, now + time_limits::kFindAgain));
      network_ = net::network_towards(address);  // there is a way to it now
      return met;
    } catch (const UsageError&) {
      throw;
    } catch (const Error&) {
      if (finder_.is_fixed() || net::SetupClock::now() + pause > deadline) throw;
    }
    std::this_thread::sleep_for(pause);
  }
}

CoordinatorClient::Welcome CoordinatorClient::decode_welcome(const net::Frame& frame) const {
  Decoder fields(frame.fields, "the coordinator's answer");
  Welcome welcome{.team = fields.number<std::uint64_t>(),
                  .generation = fields.number<std::uint32_t>(),
                  .size = fields.number<Rank>(),
                  .incarnation = fields.number<std::uint16_t>(),
                  .silent_beats = 0,
                  .may_be_back = false,
                  .standing = {}};
  Standing& standing = welcome.standing;
  standing.epoch = fields.number<std::uint32_t>();
  standing.exchanges = fields.number<std::uint32_t>();
  welcome.silent_beats = fields.number<std::uint32_t>();
  fields.expect(welcome.silent_beats >= silent_beats(kMinSilence) && welcome.silent_beats <= silent_beats(kMaxSilence),
                "its silence time is out of range");
  welcome.may_be_back = fields.flag();
  while (!fields.rest().empty()) standing.lost.insert(fields.number<Rank>());
  const bool lost_exist = standing.lost.empty() || *standing.lost.rbegin() < welcome.size;
  fields.expect(frame.kind == FrameKind::welcome && rank_ < welcome.size && lost_exist, "it makes no sense");
  return welcome;
}

std::vector<std::string> CoordinatorClient::exchange(const std::string& tried, std::string blob,
                                                     net::SetupClock::time_point deadline) {
  MutexLock lock(mutex_);
  const bool repeats = exchanges_ < standing_.exchanges;  // then no rank is waited for
  const std::uint32_t epoch = epoch_;
  const auto is_incomplete = [&]() REQUIRES(mutex_) {
    if (exchanges_ < complete_) return false;  // its result comes
    return !repeats && (!lost_.empty() || epoch_ != epoch);
  };
  const bool is_begun = failure_.empty() && !is_incomplete();
  if (is_begun) {
    given_ = {epoch, std::move(blob), deadline};
    send_later(FrameKind::contribute, contribution());
    const auto ended = [&]() REQUIRES(mutex_) { return gathered_ || !failure_.empty() || is_incomplete(); };
    if (!changed_.wait_until(lock, deadline + team::time_limits::kAnswerGrace, ended)) {
      failure_ = "the coordinator did not answer in time";
    }
    given_.reset();
  }
  if (is_begun && gathered_) {  // else it is of an exchange that was given up
    ++exchanges_;
    return *std::exchange(gathered_, std::nullopt);
  }
  if (refused_) throw UsageError({tried, "with the team", failure_, ""});
  throw Error({tried, "with the team", failure_.empty() ? "a rank was lost" : failure_, ""});
}

// Its frame's fields.
std::string CoordinatorClient::contribution() const {
  assert_that(given_.has_value(), "a contribution is sent while its exchange is under way");
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(given_->deadline - net::SetupClock::now()).count();
  const auto limit_ms = static_cast<std::uint32_t>(std::max<std::int64_t>(left, 0));
  return Encoder().number(exchanges_).number(given_->epoch).number(limit_ms).text(given_->blob).take();
}

void CoordinatorClient::evict(Rank rank, std::uint16_t incarnation) {
  {
    const MutexLock lock(mutex_);
    const std::pair eviction(rank, incarnation);
    if (!lost_.contains(rank) && std::ranges::find(evictions_, eviction) == evictions_.end())
      evictions_.push_back(eviction);
  }
  send_later(FrameKind::evict, Encoder().number(rank).number(incarnation).take());
}

void CoordinatorClient::leave() {
  send_later(FrameKind::leave, {});
  loop_.post([this] { left_ = true; });
}

void CoordinatorClient::send_later(FrameKind kind, std::string fields) {
  loop_.post([this, kind, fields = std::move(fields)] {
    if (connection_) connection_->send(session_.seal(kind, fields));
  });
}

void CoordinatorClient::fail(const std::string& why) {
  const MutexLock lock(mutex_);
  if (failure_.empty()) failure_ = why;
  changed_.notify_all();
}

void CoordinatorClient::start(Fd socket) {
  connection_ = std::make_unique<net::Connection>(loop_, std::move(socket), [this] { serve(); });
  if (!host_local_) loop_.tick(kBeatInterval, [this] { on_tick(); });
}

void CoordinatorClient::serve() {
  const bool open = connection_->receive();
  try {
    for (;;) {
      const auto [next, frame] = session_.open(connection_->received());
      if (next == net::Session::Next::incomplete) break;
      if (next == net::Session::Next::broken) return disconnect("the coordinator's message was altered");
      if (frame.kind == FrameKind::ended) return disconnect("the coordinator has ended the team");
      hear();
      obey(frame);
    }
  } catch (const Error& error) {
    return disconnect(error.what());
  }
  if (open) return;
  connection_.reset();
  lose_coordinator("is gone");
}

void CoordinatorClient::hear() {
  beats_since_heard_ = 0;
  if (!std::exchange(is_away_, false)) return;
  keeper_->end();
  log::warn("the coordinator answers again");
  if (notices_.coordinator_away) notices_.coordinator_away(false);
}

// Meanwhile no process reports deaths on other hosts, nor ranks that come back. What this process and the others have
// of each other stays.
void CoordinatorClient::lose_coordinator(const std::string& why) {
  bool is_formed = false;
  {
    const MutexLock lock(mutex_);
    is_formed = exchanges_ != 0;
  }
  if (!keeper_ || !is_formed || left_) return disconnect("the coordinator " + why);
  if (std::exchange(is_away_, true)) return;
  const char* const lacks = host_local_ ? "no process joins" : "deaths on other machines are not noticed";
  log::warn("the coordinator " + why + ": this process goes on without it; " + lacks + " until it is back");
  if (notices_.coordinator_away) notices_.coordinator_away(true);
  keeper_->begin();
}

void CoordinatorClient::take_answer(net::Acquaintance met) {
  if (left_) return;
  Welcome answer;
  try {
    if (met.first.kind == FrameKind::refused) {
      const std::string why = Decoder(met.first.fields, "why this process is refused").text();
      log::warn("the coordinator refuses this process: " + why);
      fail(why);
      (void)leave_loop();
      return notices_.lost(rank_, Loss::evicted);
    }
    answer = decode_welcome(met.first);
    const MutexLock lock(mutex_);
    if (answer.team != team_ || answer.generation < generation_ || answer.standing.exchanges < exchanges_ ||
        answer.incarnation != incarnation_ || answer.standing.epoch < epoch_) {
      log::error("a coordinator answers that knows less of this team than its members do: it is not followed");
      return keeper_->begin();
    }
    generation_ = answer.generation;
    coming_.clear();
    complete_ = answer.standing.exchanges;
  } catch (const Error& error) {
    log::warn(error.what());
    return keeper_->begin();
  }
  silent_beats_ = answer.silent_beats;
  session_ = met.session;
  connection_ = std::make_unique<net::Connection>(loop_, std::move(met.socket), [this] { serve(); });
  hear();
  say_again();
}

// Repeats what the coordinator may not have heard, or not have had in its log.
void CoordinatorClient::say_again() {
  const MutexLock lock(mutex_);
  connection_->send(session_.seal(FrameKind::beat));  // it has the answer
  for (const auto& [rank, incarnation] : evictions_)
    connection_->send(session_.seal(FrameKind::evict, Encoder().number(rank).number(incarnation).take()));
  if (given_ && !gathered_) connection_->send(session_.seal(FrameKind::contribute, contribution()));
}

void CoordinatorClient::obey(const net::Frame& frame) {
  if (frame.kind == FrameKind::gathered) take_gathered(frame);
  if (frame.kind == FrameKind::lost) take_loss(frame);
  if (frame.kind == FrameKind::refused) {
    const MutexLock lock(mutex_);
    refused_ = true;
    failure_ = Decoder(frame.fields, "why this member is refused").text();
    changed_.notify_all();
  }
  if (frame.kind == FrameKind::failed) fail(Decoder(frame.fields, "why an exchange failed").text());
  if (frame.kind == FrameKind::returned) take_return(frame);
}

void CoordinatorClient::take_gathered(const net::Frame& frame) {
  Decoder fields(frame.fields, "what the team gathered");
  const MutexLock lock(mutex_);
  if (fields.number<std::uint32_t>() != exchanges_ || gathered_) return;  // it came twice
  fields.expect(fields.number<Rank>() == coming_.size(), "a part of it is missing");
  while (!fields.rest().empty()) coming_.push_back(fields.text());
  fields.expect(coming_.size() <= size_, "it has more parts than the team has ranks");
  if (coming_.size() < size_) return;
  gathered_ = std::exchange(coming_, {});
  changed_.notify_all();
}

void CoordinatorClient::take_loss(const net::Frame& frame) {
  Decoder fields(frame.fields, "the notice of a loss");
  const auto epoch = fields.number<std::uint32_t>();
  const auto rank = fields.number<Rank>();
  const auto loss = fields.number<std::uint8_t>();
  fields.expect(rank < size_ && loss <= static_cast<std::uint8_t>(Loss::evicted), "it makes no sense");
  fields.expect_end();
  {
    const MutexLock lock(mutex_);
    if (epoch <= epoch_) return;  // it was told before the coordinator was lost
    epoch_ = epoch;
    lost_.insert(rank);
    std::erase_if(evictions_, [rank](const auto& eviction) { return eviction.first == rank; });
    changed_.notify_all();
  }
  notices_.lost(rank, static_cast<Loss>(loss));
}

void CoordinatorClient::take_return(const net::Frame& frame) {
  Decoder fields(frame.fields, "the notice of a return");
  const auto epoch = fields.number<std::uint32_t>();
  const auto rank = fields.number<Rank>();
  fields.expect(rank < size_, "it makes no sense");
  std::vector<std::string> blobs;
  while (!fields.rest().empty()) blobs.push_back(fields.text());
  const MutexLock lock(mutex_);  // all the time: an exchange finds it either lost or taken back
  if (epoch <= epoch_) return;
  notices_.returned(rank, std::move(blobs));
  epoch_ = epoch;
  lost_.erase(rank);
}

void CoordinatorClient::disconnect(const std::string& why) {
  fail(why);
  if (!leave_loop()) notices_.coordinator_gone(why);
}

// Returns whether it had left before.
bool CoordinatorClient::leave_loop() {
  if (keeper_) keeper_->end();
  connection_.reset();
  loop_.tick(std::chrono::milliseconds(0), {});
  return std::exchange(left_, true);
}

void CoordinatorClient::on_tick() {
  if (is_away_ || connection_ == nullptr) return;  // it is found again, or has come to itself, when it is heard
  if (++beats_since_heard_ > silent_beats_) return lose_coordinator("has fallen silent");
  connection_->send(session_.seal(FrameKind::beat));
}

}  // namespace farside::team
