#include "team/log_copy.h"

#include <array>
#include <utility>

#include <sys/socket.h>

#include "farside/base/error.h"
#include "farside/base/log.h"

#include "authority/file_store.h"
#include "base/backoff.h"
#include "base/signals_held.h"
#include "team/decision_log.h"
#include "team/time_limits.h"

namespace farside::team {

namespace {

/// The state of a large team has what each rank gave to each exchange.
constexpr std::size_t kMaxEntry = 64U << 20U;

}  // namespace

LogCopy::LogCopy(std::filesystem::path path, const std::string& coordinator, const net::Secret& secret)
    : path_(std::move(path)), finder_(coordinator), secret_(secret), thread_(start_thread([this] { run(); })) {}

LogCopy::~LogCopy() {
  {
    const MutexLock lock(mutex_);
    ends_ = true;
    if (socket_) ::shutdown(socket_.get(), SHUT_RDWR);
    changed_.notify_all();
  }
  thread_.join();
}

bool LogCopy::pause(std::chrono::milliseconds duration) {
  MutexLock lock(mutex_);
  return !changed_.wait_for(lock, duration, [this]() REQUIRES(mutex_) { return ends_; });
}

void LogCopy::run() {
  Backoff backoff(time_limits::kFirstPause, time_limits::kMaxPause);
  do {
    try {
      follow();
    } catch (const net::ClosedError&) {  // the coordinator has ended, or this
    } catch (const Error& error) {
      if (std::exchange(said_, error.what()) != error.what())
        log::warn(std::string("the copy of the pool's decisions on this machine is not up to date: ") + error.what());
    }
  } while (pause(backoff.next()));
}

net::Session LogCopy::connect(const net::Introduced& what) {
  const auto deadline = net::SetupClock::now() + time_limits::kKeepSeat;
  Fd socket = net::connect_to(what.address, deadline);
  {
    const MutexLock lock(mutex_);
    if (ends_) throw net::ClosedError({what.tried, what.address, "this process ends", ""});
    socket_ = std::move(socket);
  }
  return net::shake_hands(socket_, what, secret_, 0, kMaxEntry, deadline, net::ClaimPurpose::copy_log);
}

std::string LogCopy::next_entry(const net::Introduced& what, net::Session& session) {
  for (;;) {
    net::Frame frame = net::read_frame(socket_, what, session, kMaxEntry, net::SetupClock::now() + time_limits::kCopy);
    if (frame.kind == net::FrameKind::entry) return std::move(frame.fields);
  }
}

void LogCopy::follow() {
  const net::Introduced what{"copy the decisions of", finder_.find()};
  net::Session session = connect(what);
  std::array<std::string, 2> begin{next_entry(what, session), next_entry(what, session)};
  expect_newer(begin);
  authority::FileStore store(path_);
  for (auto kept = store.replace(begin); kept == authority::Kept::kept; kept = store.append(next_entry(what, session)))
    said_.clear();
  throw Error({"write", path_, store.why(), ""});
}

// A coordinator that was started from an older log than this copy is not followed.
void LogCopy::expect_newer(std::span<const std::string> begin) const {
  std::uint32_t copied = 0;
  const TeamState told = read_team(begin).team.state();
  try {
    const TeamState former = read_team(authority::FileStore(path_).read()).team.state();
    if (former.team == told.team) copied = former.generation;
  } catch (const Error&) {  // there is none, or it is of no use
  }
  if (told.generation >= copied) return;
  throw Error({"copy the decisions of", finder_.text(),
               "this machine's copy is of generation " + std::to_string(copied) + ", and they are of " +
                   std::to_string(told.generation),
               "end the process that coordinates there: another one has taken its place"});
}

}  // namespace farside::team
