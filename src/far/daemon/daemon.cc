#include "far/daemon/daemon.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <list>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "farside/base/error.h"
#include "farside/base/log.h"

#include "base/backoff.h"
#include "base/mutex.h"
#include "base/random_bits.h"
#include "base/signals_held.h"
#include "base/throttled_log.h"
#include "far/daemon/packets.h"
#include "far/daemon/program.h"
#include "far/time_limits.h"
#include "net/local_socket.h"
#include "net/time_limits.h"

namespace farside::far {

class Daemon::State {
 public:
  State(std::unique_ptr<Space> space, const DaemonOptions& options, DaemonRules rules);
  ~State();

  [[nodiscard]] DaemonCounts counts();

 private:
  using Connection = std::shared_ptr<const Fd>;
  /// One thread for each connection, so that a program that does not answer does not hold up the others.
  struct Visit {
    Connection connection;
    std::thread thread;
    std::atomic<bool> is_over{false};
  };
  using Token = std::uint64_t;

  void receive_visitors();
  /// Returns false when this process lacks descriptors or threads.
  bool admit();
  void end_visits_that_are_over();
  void attend(const Connection& connection);
  void join(const Connection& connection, Received request, std::unique_ptr<ForkSnapshot> fork_snapshot);
  void fork(const Connection& connection, const Received& request);
  void answer(const Connection& connection, const Received& request);
  [[nodiscard]] Token enter(const std::shared_ptr<Program>& program);
  [[nodiscard]] std::shared_ptr<Program> find(const Received& request);
  void leave(Token token);

  const DaemonOptions options_;
  SharedBudget shared_budget_;
  Fd listener_;
  Fd stop_;
  ThrottledLog log_;         ///< of the thread that receives visitors
  std::list<Visit> visits_;  ///< of the thread that receives them, and of the destructor after its end

  Mutex mutex_;
  std::map<Token, std::shared_ptr<Program>> programs_ GUARDED_BY(mutex_);
  DaemonCounts ended_ GUARDED_BY(mutex_);  ///< of programs that did
  std::thread receiver_;
};

Daemon::State::State(std::unique_ptr<Space> space, const DaemonOptions& options, DaemonRules rules)
    : options_(options),
      shared_budget_(budget_pages(options.local_bytes), std::move(space), options.most_ahead_pages,
                     options.fault_timeout, rules, options.profile),
      listener_(listen_for_programs(options.socket)),
      stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!stop_) throw errno_error("make", "an eventfd");
  receiver_ = start_thread([this] { receive_visitors(); });
}

Daemon::State::~State() {
  shared_budget_.is_closing = true;
  ::eventfd_write(stop_.get(), 1);
  receiver_.join();
  for (Visit& visit : visits_) ::shutdown(visit.connection->get(), SHUT_RDWR);
  for (Visit& visit : visits_) visit.thread.join();
  ::unlink(options_.socket.c_str());
}

// ---- Arrivals

void Daemon::State::receive_visitors() {
  Backoff<std::chrono::milliseconds> pauses(net::time_limits::kFirstRest, net::time_limits::kMaxRest);
  std::array<pollfd, 2> waits{{{stop_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}}};
  while (waits[0].revents == 0) {
    (void)::poll(waits.data(), waits.size(), -1);
    if (waits[1].revents != 0) {
      if (admit()) {
        pauses.reset();
      } else {  // the listener stays readable: without a pause this would spin
        (void)::poll(waits.data(), 1, static_cast<int>(pauses.next().count()));
      }
    }
    end_visits_that_are_over();
  }
}

bool Daemon::State::admit() {
  Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket) {
    log_.warn("cannot accept a program: " + std::string(std::strerror(errno)));
    return false;
  }
  if (!net::is_of_this_user(socket)) {
    log_.warn("a program of another user was turned away");
    return true;
  }
  Visit& visit = visits_.emplace_back();
  visit.connection = std::make_shared<const Fd>(std::move(socket));
  try {
    visit.thread = start_thread([this, &visit] {
      attend(visit.connection);
      ::shutdown(visit.connection->get(), SHUT_RDWR);
      visit.is_over = true;
    });
  } catch (const Error& error) {  // this one is turned away; the others go on
    visits_.pop_back();
    log_.warn(error.what());
    return false;
  }
  return true;
}

void Daemon::State::end_visits_that_are_over() {
  std::erase_if(visits_, [](Visit& visit) {
    if (!visit.is_over) return false;
    visit.thread.join();
    return true;
  });
}

void Daemon::State::attend(const Connection& connection) {
  try {
    if (!send(*connection, DaemonPacketKind::welcome, options_.arena_bytes, options_.threshold_bytes)) return;
    while (auto request = receive(*connection)) {
      switch (request->packet.kind) {
        case DaemonPacketKind::join: return join(connection, std::move(*request), nullptr);
        case DaemonPacketKind::fork_begins: return fork(connection, *request);
        default: answer(connection, *request);
      }
    }
  } catch (const std::exception& error) {
    log::warn(error.what());
    refuse(*connection, error.what());
  }
}

void Daemon::State::join(const Connection& connection, Received request, std::unique_ptr<ForkSnapshot> fork_snapshot) {
  PageRanges ranges(request.ranges());
  if (fork_snapshot != nullptr && !(ranges == fork_snapshot->ranges())) {
    throw Error({"serve", "a child of fork", "its memory is not where its parent's is", {}});
  }
  const auto program =
      std::make_shared<Program>(shared_budget_, request.process, connection, std::move(request.descriptor),
                                std::move(ranges), std::move(fork_snapshot));
  const Token token = enter(program);
  try {
    (void)send(*connection, DaemonPacketKind::joined, token);  // a program that is gone ends the call below
    program->serve_until_gone();
  } catch (...) {
    program->end();
    leave(token);
    throw;
  }
  leave(token);
}

// The parent says `forked`, and the child joins; in either order, or one of them is gone.
void Daemon::State::fork(const Connection& connection, const Received& request) {
  auto fork_snapshot = std::make_unique<ForkSnapshot>(find(request));
  if (!send(*connection, DaemonPacketKind::quiet)) return;
  set_time_out(*connection, time_limits::kFork);
  auto next = receive(*connection);
  fork_snapshot->let_parent_go_on();
  set_time_out(*connection, std::chrono::seconds(0));
  if (next && next->packet.kind == DaemonPacketKind::forked) next = receive(*connection);
  if (next && next->packet.kind == DaemonPacketKind::join) join(connection, std::move(*next), std::move(fork_snapshot));
}

void Daemon::State::answer(const Connection& connection, const Received& request) {
  const auto program = find(request);
  bool done = true;
  for (const AddressRange& range : request.ranges()) {
    if (request.packet.kind == DaemonPacketKind::discard) {
      program->discard(range);
    } else if (request.packet.kind == DaemonPacketKind::clear) {
      done = program->clear(range) && done;
    } else if (request.packet.kind == DaemonPacketKind::unpin) {
      program->unpin(range);
    } else if (request.packet.kind == DaemonPacketKind::give_away) {
      program->give_away(range);
    } else if (request.packet.kind == DaemonPacketKind::advise &&
               request.packet.extra <= static_cast<unsigned>(Hint::done)) {
      done = program->advise(range, static_cast<Hint>(request.packet.extra)) && done;
    } else if (request.packet.kind == DaemonPacketKind::allocated) {
      program->allocated(range, request.packet.extra, request.process);
    } else {
      throw Error({"obey", "a program", "its request is of a kind that programs do not make", {}});
    }
  }
  if (done) {
    (void)send(*connection, DaemonPacketKind::done);  // the next receive sees a connection that has ended
  } else {
    refuse(*connection, "pages are pinned, or more would be than three quarters of the budget");
  }
}

// ---- Programs that are present

Daemon::State::Token Daemon::State::enter(const std::shared_ptr<Program>& program) {
  const auto token = random_bits<Token>();
  const MutexLock lock(mutex_);
  programs_.emplace(token, program);
  ++ended_.programs;
  return token;
}

// A copy that was made around the hooks has its parent's token, and not its memory.
std::shared_ptr<Program> Daemon::State::find(const Received& request) {
  const MutexLock lock(mutex_);
  const auto found = programs_.find(request.packet.value);
  if (found != programs_.end() && found->second->is(request.process)) return found->second;
  throw Error({"obey", "a program", "it shows a token that is not its own", {}});
}

void Daemon::State::leave(Token token) {
  const MutexLock lock(mutex_);
  ended_.pages += programs_.at(token)->counts();
  programs_.erase(token);
}

DaemonCounts Daemon::State::counts() {
  const MutexLock lock(mutex_);
  DaemonCounts counts = ended_;
  for (const auto& [token, program] : programs_) counts.pages += program->counts();
  counts.bytes_here = shared_budget_.frames.used() * kPageBytes;
  counts.bytes_kept = shared_budget_.slots.used() * kPageBytes;
  counts.fault_latencies = shared_budget_.faults.counts();
  return counts;
}

// ---- Daemon

Daemon::Daemon(std::unique_ptr<Space> space, const DaemonOptions& options, DaemonRules rules)
    : state_(std::make_unique<State>(std::move(space), options, rules)) {}

Daemon::~Daemon() = default;

DaemonCounts Daemon::counts() const { return state_->counts(); }

}  // namespace farside::far
