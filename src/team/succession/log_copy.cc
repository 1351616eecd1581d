#include "team/succession/log_copy.h"

#include <array>
#include <cstdio>
#include <utility>

#include <sys/socket.h>

#include "farside/base/error.h"
#include "farside/base/log.h"

#include "authority/file_store.h"
#include "base/signals_held.h"
#include "base/wire.h"
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
  do {
    try {
      follow();
    } catch (const net::ClosedError&) {  // the coordinator has ended, or this
    } catch (const Error& error) {
      if (std::exchange(said_, error.what()) != error.what())
        log::warn(std::string("the copy of the pool's decisions on this machine is not up to date: ") + error.what());
    }
  } while (pause(time_limits::kMaxPauseToKeep));
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
    if (frame.kind == net::FrameKind::refused)
      throw Error({what.tried, what.address, Decoder(frame.fields, "why this process is refused").text(), ""});
  }
}

void LogCopy::follow() {
  const net::Introduced what{"copy the decisions of", finder_.find()};
  net::Session session = connect(what);
  std::array<std::string, 2> begin{next_entry(what, session), next_entry(what, session)};
  make_way_for(begin);
  authority::FileStore store(path_);
  std::uint64_t appended = 0;
  for (auto kept = store.replace(begin); kept == authority::Kept::kept;) {
    said_.clear();
    if (appended > store.large_bytes()) return;  // the next connection begins with the state
    const std::string entry = next_entry(what, session);
    appended += entry.size();
    kept = store.append(entry);
  }
  throw Error({"copy the decisions of", what.address, store.why(), ""});
}

// A copy that may be needed is not lost to a coordinator that knows less, or to that of another team: the first machine
// may have come back with an empty disk.
void LogCopy::make_way_for(std::span<const std::string> begin) const {
  const std::vector<std::string> entries = authority::FileStore(path_).read();
  if (entries.empty()) return;
  const TeamState told = read_team(begin).team.state();
  const TeamState former = read_team(entries).team.state();
  if (told.team != former.team) {
    const std::filesystem::path kept = path_.native() + ".1";
    if (::rename(path_.c_str(), kept.c_str()) != 0) throw errno_error("replace", kept);
    return;
  }
  if (std::pair(told.generation, told.epoch) >= std::pair(former.generation, former.epoch)) return;
  throw Error({"copy the decisions of", finder_.text(),
               "this machine's copy has more of them: generation " + std::to_string(former.generation) + ", epoch " +
                   std::to_string(former.epoch),
               "end the process that coordinates there, if another one has taken its place"});
}

}  // namespace farside::team
