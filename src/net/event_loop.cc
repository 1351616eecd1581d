#include "net/event_loop.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "farside/base/error.h"

#include "base/assert.h"
#include "base/signals_held.h"
#include "net/time_limits.h"

namespace farside::net {

namespace {

// Empties a counter that epoll reported: an eventfd or a timer.
void drain(const Fd& counter) {
  std::uint64_t count = 0;
  if (::read(counter.get(), &count, sizeof count) < 0 && errno != EAGAIN) throw errno_error("read", "an event counter");
}

}  // namespace

EventLoop::EventLoop()
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      wakeup_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)),
      posted_([this] { wake(); }) {
  if (!epoll_ || !wakeup_ || !timer_) throw errno_error("create", "an event loop", "check ulimit -n");
  watch(wakeup_.get(), EPOLLIN, [this](std::uint32_t) {
    drain(wakeup_);
    posted_.run();
  });
  watch(timer_.get(), EPOLLIN, [this](std::uint32_t) {
    drain(timer_);
    const auto handler = tick_;  // may set another
    if (handler) handler();      // one that was taken back as the timer ran out
  });
  thread_ = start_thread([this] { run(0); });
}

void EventLoop::watch(int fd, std::uint32_t events, Handler handler) {
  assert_that(!watched_.contains(fd), "a descriptor stays open until it is forgotten, and is watched once");
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) throw errno_error("watch", "a descriptor");
  watched_[fd] = std::make_shared<Watched>(
      Watched{.handler = std::move(handler), .rests = {net::time_limits::kFirstRest, net::time_limits::kMaxRest}});
}

void EventLoop::change(int fd, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) != 0) throw errno_error("watch", "a descriptor");
}

void EventLoop::forget(int fd) {
  if (watched_.erase(fd) != 0) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

std::chrono::milliseconds EventLoop::rest(int fd) {
  const std::shared_ptr<Watched> resting = watched_.at(fd);
  const std::chrono::milliseconds pause = resting->rests.next();
  resting->has_rested = true;
  change(fd, 0);
  after(pause, [this, fd, resting] {
    const auto found = watched_.find(fd);
    if (found != watched_.end() && found->second == resting) change(fd, EPOLLIN);  // else it was forgotten meanwhile
  });
  return pause;
}

void EventLoop::tick(std::chrono::milliseconds period, std::function<void()> handler) {
  assert_that(period.count() == 0 || handler, "a timer that runs has a handler");
  tick_ = std::move(handler);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(period);
  const auto rest = std::chrono::nanoseconds(period - seconds);
  const timespec interval{seconds.count(), rest.count()};
  const itimerspec spec{interval, interval};
  if (::timerfd_settime(timer_.get(), 0, &spec, nullptr) != 0) throw errno_error("set", "a timer");
}

void EventLoop::after(std::chrono::milliseconds delay, std::function<void()> task) {
  later_.emplace(std::chrono::steady_clock::now() + delay, std::move(task));
}

int EventLoop::wait_ms() const {
  if (later_.empty()) return -1;
  const auto left = later_.begin()->first - std::chrono::steady_clock::now();
  const auto left_ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::clamp<std::int64_t>(left_ms, 0, 60'000));
}

void EventLoop::run_due() {
  while (!later_.empty() && later_.begin()->first <= std::chrono::steady_clock::now()) {
    const auto task = later_.extract(later_.begin());  // may add others
    task.mapped()();
  }
}

std::thread EventLoop::hand_over() {
  const std::uint64_t turn = ++turn_;
  try {
    return std::exchange(thread_, start_thread([this, turn] { run(turn); }));
  } catch (const Error&) {
    --turn_;
    throw;
  }
}

void EventLoop::wake() const {
  const std::uint64_t one = 1;
  if (::write(wakeup_.get(), &one, sizeof one) < 0) throw errno_error("wake", "an event loop");
}

void EventLoop::stop() {
  if (!thread_.joinable()) return;
  assert_that(thread_.get_id() != std::this_thread::get_id(), "the loop's own thread does not stop it");
  post([this] { stopping_ = true; });
  thread_.join();
  watched_.clear();
  later_.clear();
}

void EventLoop::run(std::uint64_t turn) {
  std::array<epoll_event, 32> events;
  while (turn_ == turn && !stopping_) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), wait_ms());
    if (count < 0 && errno != EINTR) throw errno_error("wait in", "an event loop");
    for (int i = 0; i < count; ++i) {
      const auto found = watched_.find(events.at(i).data.fd);
      if (found == watched_.end()) continue;  // forgotten by an earlier handler of this round
      const auto watched = found->second;     // its handler may forget it
      watched->has_rested = false;
      watched->handler(events.at(i).events);
      if (!watched->has_rested) watched->rests.reset();
    }
    run_due();
    if (after_round_) after_round_();
  }
}

}  // namespace farside::net
