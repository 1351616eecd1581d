// Locks that lie in far memory, and whose page leaves while they are held or waited for.
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <thread>

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/far_preload/far_program.h"

namespace far_program {

namespace {

/// In pages of their own.
struct Locks {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  int turn;
};

class FarLocks {
 public:
  FarLocks(int protocol, int robustness) : memory_(map(kLarge)), others_(map(kLarge)) {
    pthread_mutexattr_t attributes;
    REQUIRE(pthread_mutexattr_init(&attributes) == 0);
    REQUIRE(pthread_mutexattr_setprotocol(&attributes, protocol) == 0);
    REQUIRE(pthread_mutexattr_setrobust(&attributes, robustness) == 0);
    REQUIRE(pthread_mutex_init(&mutex(), &attributes) == 0 && pthread_cond_init(&locks().changed, nullptr) == 0);
  }
  Locks& locks() { return *reinterpret_cast<Locks*>(memory_); }
  pthread_mutex_t& mutex() { return locks().mutex; }
  void make_leave() { fill(others_, kLarge, ++seed_); }
  int lock_in_time() {
    timespec until{};
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 20;
    return pthread_mutex_timedlock(&mutex(), &until);
  }

 private:
  std::uint8_t* memory_;
  std::uint8_t* others_;
  unsigned seed_ = 0;
};

void* wait_for_turn(void* argument) {
  Locks& locks = *static_cast<Locks*>(argument);
  REQUIRE(pthread_mutex_lock(&locks.mutex) == 0);
  while (locks.turn != 1) REQUIRE(pthread_cond_wait(&locks.changed, &locks.mutex) == 0);
  locks.turn = 2;
  REQUIRE(pthread_cond_signal(&locks.changed) == 0 && pthread_mutex_unlock(&locks.mutex) == 0);
  return nullptr;
}

// One waits for the other, first for the mutex and then for what it says.
void hand_over(FarLocks& far) {
  Locks& locks = far.locks();
  pthread_t other;
  REQUIRE(far.lock_in_time() == 0);
  REQUIRE(pthread_create(&other, nullptr, wait_for_turn, &locks) == 0);
  usleep(10000);
  far.make_leave();
  REQUIRE(pthread_mutex_unlock(&locks.mutex) == 0);
  usleep(10000);
  far.make_leave();
  REQUIRE(far.lock_in_time() == 0);
  locks.turn = 1;
  REQUIRE(pthread_cond_signal(&locks.changed) == 0);
  while (locks.turn != 2) {
    far.make_leave();
    REQUIRE(pthread_cond_wait(&locks.changed, &locks.mutex) == 0);
  }
  REQUIRE(pthread_mutex_unlock(&locks.mutex) == 0 && pthread_join(other, nullptr) == 0);
  locks.turn = 0;
}

// The kernel gives it to the next one when its owner ends, which takes its page: it waits for none then.
void inherit(FarLocks& far) {
  REQUIRE(mlock(&far.locks(), sizeof(Locks)) == 0);
  std::atomic<int> step{0};
  std::thread owner([&] {
    REQUIRE(far.lock_in_time() == 0);
    step = 1;
    while (step != 2) usleep(1000);
  });
  while (step != 1) usleep(1000);
  far.make_leave();
  static_cast<void>(*static_cast<volatile int*>(&far.locks().turn));  // for a daemon that pins nothing
  step = 2;
  owner.join();
  REQUIRE(far.lock_in_time() == EOWNERDEAD && pthread_mutex_consistent(&far.mutex()) == 0);
  REQUIRE(pthread_mutex_unlock(&far.mutex()) == 0);
}

}  // namespace

void futexes() {
  for (const int protocol : {PTHREAD_PRIO_NONE, PTHREAD_PRIO_INHERIT}) {
    for (const int robustness : {PTHREAD_MUTEX_STALLED, PTHREAD_MUTEX_ROBUST}) {
      FarLocks far(protocol, robustness);
      for (int round = 0; round < 2; ++round) hand_over(far);
      if (robustness == PTHREAD_MUTEX_ROBUST) inherit(far);
    }
  }
}

}  // namespace far_program
