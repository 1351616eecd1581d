#include "team/coordinator_client.h"

#include <algorithm>
#include <utility>

#include "farside/base/error.h"

#include "base/assert.h"
#include "base/wire.h"
#include "team/liveness.h"
#include "team/time_limits.h"

namespace farside::team {

namespace {

using net::FrameKind;

// Limit of a body that the coordinator sends: all that a rank that has come back gave to 2000 exchanges.
constexpr std::size_t kBodyLimit = 16 << 20;

}  // namespace

CoordinatorClient::CoordinatorClient(net::EventLoop& loop, const std::string& address, const net::Secret& secret,
                                     Rank rank, MembershipNotices notices, net::SetupClock::time_point deadline)
    : loop_(loop),
      notices_(std::move(notices)),
      rank_(rank),
      host_local_(net::is_host_local(address)),
      fabric_secret_(secret.for_fabric()),
      session_({}, net::Session::Side::member, kBodyLimit) {
  const net::Introduced what{"join the team at", address};
  net::Acquaintance met = net::introduce(what, secret, rank_, kBodyLimit, deadline);
  network_ = net::network_towards(address);  // there is a way to it now
  session_ = met.session;
  take_seat(what, met.first);
  epoch_ = standing_.epoch;
  lost_ = standing_.lost;
  loop_.post([this, held = std::make_shared<Fd>(std::move(met.socket))] { start(std::move(*held)); });
}

void CoordinatorClient::take_seat(const net::Introduced& what, const net::Frame& verdict) {
  Decoder fields(verdict.fields, "the coordinator's answer");
  if (verdict.kind == FrameKind::refused) throw Error({what.tried, what.address, fields.text(), ""});
  size_ = fields.number<Rank>();
  incarnation_ = fields.number<std::uint16_t>();
  standing_.epoch = fields.number<std::uint32_t>();
  standing_.exchanges = fields.number<std::uint32_t>();
  while (!fields.rest().empty()) standing_.lost.insert(fields.number<Rank>());
  const bool lost_exist = standing_.lost.empty() || *standing_.lost.rbegin() < size_;
  fields.expect(verdict.kind == FrameKind::welcome && rank_ < size_ && lost_exist, "it makes no sense");
}

std::vector<std::string> CoordinatorClient::exchange(const std::string& tried, std::string blob,
                                                     net::SetupClock::time_point deadline) {
  MutexLock lock(mutex_);
  const bool repeats = exchanges_ < standing_.exchanges;  // then no rank is waited for
  const std::uint32_t epoch = epoch_;
  const auto is_incomplete = [&]() REQUIRES(mutex_) { return !repeats && (!lost_.empty() || epoch_ != epoch); };
  const bool is_begun = failure_.empty() && !is_incomplete();
  if (is_begun) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - net::SetupClock::now()).count();
    const auto limit_ms = static_cast<std::uint32_t>(std::max<std::int64_t>(left, 0));
    send_later(FrameKind::contribute, Encoder().number(exchanges_).number(epoch).number(limit_ms).text(blob).take());
    const auto ended = [&]() REQUIRES(mutex_) { return gathered_ || !failure_.empty() || is_incomplete(); };
    if (!changed_.wait_until(lock, deadline + team::time_limits::kAnswerGrace, ended)) {
      failure_ = "the coordinator did not answer in time";
    }
  }
  if (is_begun && gathered_) {  // else it is of an exchange that was given up
    ++exchanges_;
    return *std::exchange(gathered_, std::nullopt);
  }
  if (refused_) throw UsageError({tried, "with the team", failure_, ""});
  throw Error({tried, "with the team", failure_.empty() ? "a rank was lost" : failure_, ""});
}

void CoordinatorClient::evict(Rank rank, std::uint16_t incarnation) {
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
    net::Frame frame{};
    for (;;) {
      const net::Session::Next next = session_.open(connection_->received(), frame);
      if (next == net::Session::Next::incomplete) break;
      if (next == net::Session::Next::broken) return disconnect("the coordinator's message was altered");
      beats_since_heard_ = 0;
      obey(frame);
    }
  } catch (const Error& error) {
    return disconnect(error.what());
  }
  if (!open) disconnect("the coordinator is gone");
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
    epoch_ = epoch;
    lost_.insert(rank);
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
  notices_.returned(rank, std::move(blobs));
  epoch_ = epoch;
  lost_.erase(rank);
}

void CoordinatorClient::disconnect(const std::string& why) {
  assert_that(connection_ != nullptr, "the connection ends once");
  fail(why);
  connection_.reset();
  loop_.tick(std::chrono::milliseconds(0), {});
  if (!left_) notices_.coordinator_gone(why);
}

void CoordinatorClient::on_tick() {
  assert_that(connection_ != nullptr, "the timer runs while there is a connection");
  if (++beats_since_heard_ > kSilentBeats) return disconnect("the coordinator has fallen silent");
  connection_->send(session_.seal(FrameKind::beat));
}

}  // namespace farside::team
