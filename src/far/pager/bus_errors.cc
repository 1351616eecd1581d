#include "far/pager/bus_errors.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <mutex>
#include <thread>

#include <ucontext.h>
#include <unistd.h>

#include "farside/base/error.h"

namespace farside::far {

namespace {

constexpr std::size_t kMaxPlaces = 16;

// A registration that ends waits for the handlers that may still see its server: the visitors.
struct Place {
  std::atomic<BusErrorServer*> server{nullptr};
  std::atomic<std::uint32_t> visitors{0};
};
constinit std::array<Place, kMaxPlaces> places{};
constinit struct sigaction previous {};
constinit std::once_flag installed;

bool is_write([[maybe_unused]] const void* context) {
#ifdef __x86_64__
  constexpr long long kWriteBit = 2;  // of the processor's page-fault code
  return (static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & kWriteBit) != 0;
#else
  return true;
#endif
}

void give_to_previous(int signal, siginfo_t* info, void* context) {
  if ((previous.sa_flags & SA_SIGINFO) != 0 && previous.sa_sigaction != nullptr) {
    previous.sa_sigaction(signal, info, context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(signal);
  } else {
    ::sigaction(SIGBUS, &previous, nullptr);  // the access is tried again, and ends the process
  }
}

bool serve(void* address, bool is_write) {
  for (Place& place : places) {
    if (place.server.load() == nullptr) continue;
    ++place.visitors;
    BusErrorServer* const server = place.server.load();
    const bool serves = server != nullptr && server->owns(address);
    if (serves) server->serve_bus_error(address, is_write);
    --place.visitors;
    if (serves) return true;
  }
  return false;
}

void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int saved = errno;
  if (!serve(info->si_addr, is_write(context))) give_to_previous(signal, info, context);
  errno = saved;
}

void install() {
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  sigfillset(&action.sa_mask);  // a handler that runs in the middle of ours could fault itself
  if (::sigaction(SIGBUS, &action, &previous) != 0) throw errno_error("handle the signal", "SIGBUS");
}

}  // namespace

BusErrorRegistration::BusErrorRegistration(BusErrorServer& server) : process_(::getpid()) {
  std::call_once(installed, install);
  for (place_ = 0; place_ < kMaxPlaces; ++place_) {
    BusErrorServer* none = nullptr;
    if (places.at(place_).server.compare_exchange_strong(none, &server)) return;
  }
  throw Error({"serve the faults of", "another far heap", "16 are open", "put more into one heap"});
}

// The visitors that a child of fork finds counted are threads of its parent.
BusErrorRegistration::~BusErrorRegistration() {
  Place& place = places.at(place_);
  place.server = nullptr;
  if (::getpid() != process_) place.visitors = 0;
  while (place.visitors != 0) std::this_thread::sleep_for(std::chrono::microseconds(20));
}

bool lets_bus_errors_through() {
  sigset_t blocked;
  sigemptyset(&blocked);
  ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  return sigismember(&blocked, SIGBUS) == 0;
}

}  // namespace farside::far
