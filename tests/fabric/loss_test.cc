// Conformance: a peer that dies, stops, goes on late or is put out. Every wait on it ends, and the others go on.
#include <array>
#include <atomic>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "farside/base/error.h"
#include "farside/fabric/host.h"

#include "fabric/clock.h"
#include "tests/support/death_watch.h"
#include "tests/support/mesh.h"
#include "tests/support/reduced.h"

namespace farside::test {
namespace {

const Duration kTold = extended(std::chrono::seconds(2));  // within which every waiter knows of a death

/// Collective: all other members learn of the death of `watched`, which is the team's work in the real thing.
std::unique_ptr<DeathWatch> watch(Member& me, const Mesh& mesh, PeerId watched) {
  const std::vector<std::string> pids = me.exchange(std::to_string(::getpid()));
  std::unique_ptr<DeathWatch> death_watch;
  if (me.index() != watched) {
    const auto mark_lost = [&mesh, watched, life = mesh.fabric->life(watched)] {
      mesh.fabric->mark_lost(watched, life);
    };
    death_watch = std::make_unique<DeathWatch>(std::stoi(pids[watched]), mark_lost);
  }
  me.barrier();
  return death_watch;
}

struct Killing {
  std::atomic<unsigned> ready;   ///< survivors that are about to wait or to post
  std::atomic<std::int64_t> at;  ///< when the victim was killed
  std::atomic<unsigned> told;    ///< survivors that got peer_lost
};

// A process that waits for the victim's signal or is in the middle of operations on it gets peer_lost within 2 s; then
// the survivors use each other as before.
TEST(Loss, EveryWaiterIsToldOfADeathAndTheOthersGoOn) {
  constexpr unsigned kVictim = 3;
  const Shared<Killing> killing;
  Fleet fleet(4, [&](Member& me) {
    const Mesh mesh = make_mesh(me, 1 << 20);
    const auto death_watch = watch(me, mesh, kVictim);
    const auto own_word = mesh.local->word<ControlWord>(0);
    if (me.index() == kVictim) {
      for (;;) ::pause();
    }
    ++killing->ready;
    if (me.index() == 0) {
      constexpr std::array<PeerId, 1> kPeers{kVictim};
      const auto never = [](std::uint64_t) { return false; };
      EXPECT_EQ(mesh.channel->wait_until(*mesh.local, own_word, never, mesh.deadline(), kPeers), Outcome::peer_lost);
    } else {
      std::vector<std::byte> buffer(1 << 20);
      Outcome outcome = Outcome::done;
      while (outcome == Outcome::done || outcome == Outcome::link_lost) {
        const auto all = mesh.at(kVictim).span(0, buffer.size());
        outcome = me.index() == 1 ? mesh.channel->read(LocalSpan(buffer.data(), buffer.size()), all, mesh.deadline())
                                  : mesh.channel->write(all, LocalSpan(buffer.data(), buffer.size()), mesh.deadline());
        if (me.index() == 2 && outcome == Outcome::done) outcome = mesh.channel->flush(kVictim, mesh.deadline());
      }
      EXPECT_EQ(outcome, Outcome::peer_lost);
      // A broken connection may be noticed before the death behind it is known.
      EXPECT_TRUE(eventually([&] { return mesh.fabric->lost(kVictim); }));
      EXPECT_EQ(mesh.channel->flush(kVictim, mesh.deadline()), Outcome::peer_lost);
    }
    EXPECT_LT(monotonic_now() - Time{killing->at.load()}, kTold);
    ++killing->told;
    EXPECT_TRUE(eventually([&] { return killing->told >= 3; }));

    const unsigned next = (me.index() + 1) % 3;
    EXPECT_EQ(mesh.channel->write_signal(mesh.at(next).word<ControlWord>(0), 1, mesh.deadline()), Outcome::done);
    const auto one = [](std::uint64_t value) { return value == 1; };
    EXPECT_EQ(mesh.channel->wait_until(*mesh.local, own_word, one, mesh.deadline()), Outcome::done);
    ++killing->told;
    EXPECT_TRUE(eventually([&] { return killing->told >= 6; }));
  });
  ASSERT_TRUE(eventually([&] { return killing->ready == 3; }));
  killing->at = monotonic_now().nanoseconds;
  fleet.signal(kVictim, SIGKILL);
  EXPECT_EQ(WTERMSIG(fleet.wait(kVictim)), SIGKILL);
  fleet.expect_success();
}

// A process that is killed leaves requests behind in its connections. Their target answers the air, and goes on.
TEST(Loss, OfManyInTheMiddleOfOperationsHarmsNoSurvivor) {
  constexpr unsigned kVictims = 15;
  const Shared<std::atomic<unsigned>> busy;
  const Shared<std::atomic<bool>> over;
  Fleet fleet(1 + kVictims, [&](Member& me) {
    const Mesh mesh = make_mesh(me, 1 << 20);
    if (me.index() == 0) {
      EXPECT_TRUE(eventually([&] { return over->load(); }));
      return;
    }
    std::vector<std::byte> buffer(256 << 10);
    const RemoteSpan all = mesh.at(0).span(0, buffer.size());
    const LocalSpan local(buffer.data(), buffer.size());
    for (bool first = true;; first = false) {
      Batch batch(*mesh.channel);
      std::array<std::uint64_t, 16> old{};
      for (std::uint64_t& word : old) {
        batch.fetch_add(mesh.at(0).word<AtomicWord>(512 << 10), 1, word);
        batch.read(local.piece(0, 16), mesh.at(0).span(0, 16));
        batch.read(local, all);
        batch.write(all, local);
      }
      if (first) ++*busy;
      (void)batch.wait(mesh.deadline());
    }
  });
  ASSERT_TRUE(eventually([&] { return busy->load() == kVictims; }));
  for (unsigned victim = 1; victim <= kVictims; ++victim) {
    fleet.signal(victim, SIGKILL);
    EXPECT_EQ(WTERMSIG(fleet.wait(victim)), SIGKILL);
  }
  *over = true;
  fleet.expect_success();
}

struct Stopping {
  std::atomic<bool> took;     ///< the holder has the lock
  std::atomic<bool> stopped;  ///< and does not run
  std::atomic<bool> taken_over;
};

// Rule 5: a holder that was stopped goes on after its lease was taken over. Its late COMPARE_SWAPs change nothing,
// and the late answer of an operation that was given up on does not reach the buffer it was once meant for.
TEST(Loss, WhatAStoppedPeerDoesLateDoesNoHarm) {
  const Shared<Stopping> stopping;
  Fleet fleet(2, [&](Member& me) {
    const Mesh mesh = make_mesh(me, 4096);
    const auto lock = mesh.at(0).word<AtomicWord>(8);
    constexpr std::uint64_t kOld = 0x1001;
    constexpr std::uint64_t kNew = 0x2001;
    if (me.index() == 1) {
      ASSERT_EQ(mesh.channel->compare_swap(lock, 0, kOld, mesh.deadline()).value, 0U);
      stopping->took = true;
      ASSERT_TRUE(eventually([&] { return stopping->taken_over.load(); }));
      EXPECT_EQ(mesh.channel->compare_swap(lock, kOld, 0, mesh.deadline()).value, kNew) << "a late release";
      me.barrier();
    } else {
      ASSERT_TRUE(eventually([&] { return stopping->stopped.load(); }));
      std::uint64_t buffer = 0;
      const Outcome outcome =
          mesh.channel->read(LocalSpan(buffer), mesh.at(1).span(0, 8), mesh.fabric->in(std::chrono::milliseconds(300)));
      EXPECT_EQ(outcome, mesh.at(1).mapped() != nullptr ? Outcome::done : Outcome::timed_out);
      buffer = 77;
      ASSERT_EQ(mesh.channel->compare_swap(lock, kOld, kNew, mesh.deadline()).value, kOld);
      stopping->taken_over = true;
      me.barrier();
      EXPECT_EQ(buffer, 77U);
      EXPECT_EQ(mesh.channel->load(lock, mesh.deadline()).value, kNew);
      std::uint64_t again = 1;
      EXPECT_EQ(mesh.channel->read(LocalSpan(again), mesh.at(1).span(0, 8), mesh.deadline()), Outcome::done)
          << "a peer that goes on can be reached as before";
      EXPECT_EQ(again, 0U);
    }
    me.barrier();
  });
  ASSERT_TRUE(eventually([&] { return stopping->took.load(); }));
  fleet.signal(1, SIGSTOP);
  int status = 0;
  ASSERT_EQ(::waitpid(fleet.pid(1), &status, WUNTRACED), fleet.pid(1));
  stopping->stopped = true;
  ASSERT_TRUE(eventually([&] { return stopping->taken_over.load(); }));
  fleet.signal(1, SIGCONT);
  fleet.expect_success();
}

struct Revoking {
  std::atomic<bool> writing;
  std::atomic<bool> revoked;
};

// Once revoke has returned, nothing of the peer lands any more, so that memory it could reach may be reused.
TEST(Loss, NothingOfAPeerLandsAfterItWasRevoked) {
  const Shared<Revoking> revoking;
  Fleet fleet(2, [&](Member& me) {
    const Mesh mesh = make_mesh(me, 4096);
    if (me.index() == 1) {
      for (std::uint64_t i = 1;; ++i) {
        const auto word = mesh.at(0).word<ControlWord>(0);
        if (mesh.channel->store(word, i, mesh.deadline()) != Outcome::done) break;
        if (mesh.channel->flush(0, mesh.deadline()) != Outcome::done) break;
        revoking->writing = true;
      }
      EXPECT_TRUE(eventually([&] { return revoking->revoked.load(); }));
      return;  // only where revoking closes connections; a process of the same host is dead by now
    }
    ASSERT_TRUE(eventually([&] { return revoking->writing.load(); }));
    ASSERT_EQ(mesh.fabric->revoke(1, mesh.deadline()), Outcome::done);
    EXPECT_TRUE(mesh.fabric->lost(1));
    const std::uint64_t last = mesh.local->word<ControlWord>(0).load();
    mesh.fabric->sleep(std::chrono::milliseconds(100));
    EXPECT_EQ(mesh.local->word<ControlWord>(0).load(), last);
    std::uint64_t buffer = 0;
    EXPECT_EQ(mesh.channel->read(LocalSpan(buffer), mesh.at(1).span(0, 8), mesh.deadline()), Outcome::peer_lost);
    EXPECT_EQ(mesh.fabric->revoke(1, mesh.deadline()), Outcome::done) << "to do it twice is no harm";
    revoking->revoked = true;
  });
  EXPECT_EQ(fleet.wait(0), 0);
  const int status = fleet.wait(1);
  EXPECT_TRUE(status == 0 || WTERMSIG(status) == SIGKILL) << status;
}

// A process that revoked its own access would kill itself.
TEST(Loss, RefusesToRevokeOneself) {
  Fleet fleet(1, [](Member& me) {
    const Mesh mesh = make_mesh(me, 4096);
    EXPECT_THROW((void)mesh.fabric->revoke(0, mesh.deadline()), Error);
    EXPECT_FALSE(mesh.fabric->lost(0));
  });
  fleet.expect_success();
}

std::uint64_t shared_memory_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssShmem:")) return std::stoull(line.substr(9));
  }
  return 0;
}

bool maps_region(const std::string& name) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("farside:" + name) != std::string::npos) return true;
  }
  return false;
}

// A dead peer's memory is the machine's again once its death is known, though the process that attached it goes on: a
// thread may be copying from it just then.
TEST(Loss, TheMemoryOfTheDeadIsGivenBack) {
  constexpr std::uint64_t kBytes = 32 << 20;
  const Shared<Killing> killing;
  Fleet fleet(2, [&](Member& me) {
    const Mesh mesh = make_mesh(me, kBytes);
    std::vector<std::byte> bytes(kBytes, std::byte{9});
    if (me.index() == 1) mesh.local->copy_in(0, bytes);
    const auto death_watch = watch(me, mesh, 1);
    if (me.index() == 1) {
      for (;;) ::pause();
    }
    const std::uint64_t before = shared_memory_kib();
    const RemoteSpan all = mesh.at(1).span(0, kBytes);
    Outcome outcome = mesh.channel->read(LocalSpan(bytes.data(), kBytes), all, mesh.deadline());
    EXPECT_EQ(outcome, Outcome::done);
    ++killing->ready;
    while (outcome == Outcome::done || outcome == Outcome::link_lost) {  // the link may break before the death is known
      outcome = mesh.channel->read(LocalSpan(bytes.data(), kBytes), all, mesh.deadline());
      const bool is_zero = bytes.back() == std::byte{0};
      EXPECT_FALSE(outcome == Outcome::done && is_zero);  // those come after its memory went
    }
    EXPECT_EQ(outcome, Outcome::peer_lost);
    EXPECT_TRUE(eventually([&] { return shared_memory_kib() <= before + 1024; }));
    EXPECT_TRUE(eventually([&] { return !maps_region("mesh 1"); }));
  });
  ASSERT_TRUE(eventually([&] { return killing->ready == 1; }));
  fleet.signal(1, SIGKILL);
  EXPECT_EQ(WTERMSIG(fleet.wait(1)), SIGKILL);
  fleet.expect_success();
}

// A READ that comes too late is not answered, or finds what was there; never the blank memory that UCX has in its
// place.
TEST(Loss, RegionsOfAServiceThatStoppedAnsweringAreNotRead) {
  Fleet fleet(2, [](Member& me) {
    Mesh mesh = make_mesh(me, 4096);
    mesh.local->word<ControlWord>(0).store(7);
    me.barrier();
    if (me.index() == 0) {
      ASSERT_EQ(mesh.channel->load(mesh.at(1).word<ControlWord>(0), mesh.deadline()).value, 7U);
      me.barrier();
      me.barrier();
      const auto late =
          mesh.channel->load(mesh.at(1).word<ControlWord>(0), mesh.fabric->in(std::chrono::milliseconds(200)));
      EXPECT_TRUE(!late.done() || late.value == 7) << late.value;
    } else {
      me.barrier();
      stop_answering(*mesh.fabric);
      mesh.local.reset();
      me.barrier();
    }
    me.barrier();
  });
  fleet.expect_success();
}

}  // namespace
}  // namespace farside::test
