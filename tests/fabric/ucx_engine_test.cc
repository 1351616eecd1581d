// The UCX engine by itself, between real processes over TCP on the loopback device.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "farside/base/error.h"

#include "fabric/clock.h"
#include "fabric/ucx/engine.h"
#include "tests/support/fleet.h"
#include "tests/support/mesh.h"
#include "tests/support/shared.h"

namespace farside::test {
namespace {

using namespace std::chrono_literals;
using Kind = Operation::Kind;

Deadline in(Duration duration) { return {monotonic_now() + duration}; }
Deadline patience() { return in(kPatience); }

void use_loopback_device() { ::setenv("UCX_NET_DEVICES", "lo", 1); }

// One process's engine, connected to every member, with memory at each.
struct Node {
  explicit Node(std::uint64_t bytes) : words(bytes / 8) {
    use_loopback_device();
    engine = std::make_unique<UcxEngine>([this] { ++events; });
    memory = engine->offer(reinterpret_cast<std::byte*>(words.data()), words.size() * 8);
    channel = engine->open_channel();
  }

  // Collective.
  void meet(Member& me) {
    const auto addresses = me.exchange(engine->address());
    const auto handles = me.exchange(memory->handle());
    for (PeerId peer = 0; peer < me.count(); ++peer) {
      engine->connect(peer, addresses[peer]);
      remotes.push_back(
          std::make_unique<RemoteRegion>("test", peer, words.size() * 8, nullptr, engine->attach(peer, handles[peer])));
    }
    me.barrier();
  }

  // One operation at `peer`, awaited. `offset` and `bytes` as for the region.
  Outcome run(Kind kind, PeerId peer, std::uint64_t offset, void* local, std::uint64_t bytes, Deadline deadline,
              std::uint64_t operand = 0, std::uint64_t expected = 0) {
    Completion completion;
    channel->post({kind, remotes.at(peer).get(), offset, static_cast<std::byte*>(local), bytes, operand, expected},
                  completion);
    channel->finish(completion, deadline);
    return completion.outcome;
  }
  Outcome read(PeerId peer, std::uint64_t offset, void* into, std::uint64_t bytes, Deadline deadline = patience()) {
    return run(Kind::read, peer, offset, into, bytes, deadline);
  }
  Outcome write(PeerId peer, std::uint64_t offset, void* from, std::uint64_t bytes, Deadline deadline = patience()) {
    return run(Kind::write, peer, offset, from, bytes, deadline);
  }

  std::atomic<int> events = 0;
  std::vector<std::uint64_t> words;  // what this process offers
  std::unique_ptr<UcxEngine> engine;
  std::unique_ptr<UcxMemory> memory;
  std::unique_ptr<UcxChannel> channel;
  std::vector<std::unique_ptr<RemoteRegion>> remotes;
};

// The words of an own region as its owner sees them while others change them.
std::uint64_t look(std::uint64_t& word) { return std::atomic_ref(word).load(); }

// Stops a process and waits until each of its threads stands.
void stop(pid_t process) {
  ASSERT_EQ(::kill(process, SIGSTOP), 0);
  ASSERT_TRUE(eventually([&] {
    const std::filesystem::directory_iterator threads("/proc/" + std::to_string(process) + "/task");
    return std::all_of(begin(threads), end(threads), [](const auto& thread) {
      std::string text;
      std::getline(std::ifstream(thread.path() / "stat"), text);
      return text.find(") T ") != std::string::npos;
    });
  }));
}

// Everything else stands on this. Odd places and sizes, because the transport cuts into pieces of its own.
TEST(UcxEngine, ReadsBackWhatItWroteAtAnySizeAndPlace) {
  Fleet fleet(2, [](Member& me) {
    Node node(64 << 20);
    node.meet(me);
    if (me.index() == 0) {
      for (const std::uint64_t bytes : {0ul, 1ul, 7ul, 8ul, 4096ul, 8193ul, 1048577ul, (64ul << 20) - 3}) {
        std::vector<std::uint8_t> sent(bytes);
        for (std::uint64_t i = 0; i < bytes; ++i) sent[i] = static_cast<std::uint8_t>(i * 31 + bytes);
        std::vector<std::uint8_t> found(bytes);
        ASSERT_EQ(node.write(1, 3, sent.data(), bytes), Outcome::done) << bytes;
        ASSERT_EQ(node.channel->flush(1, patience()), Outcome::done) << bytes;
        ASSERT_EQ(node.read(1, 3, found.data(), bytes), Outcome::done) << bytes;
        EXPECT_EQ(sent, found) << bytes;
      }
    }
    me.barrier();
  });
  fleet.expect_success();
}

// A WRITE becomes visible without any call of the target, which is told.
TEST(UcxEngine, FlushedWriteIsInTheTargetsMemory) {
  Fleet fleet(2, [](Member& me) {
    Node node(4096);
    node.meet(me);
    if (me.index() == 0) {
      std::uint64_t value = 42;
      ASSERT_EQ(node.write(1, 8, &value, 8), Outcome::done);
      ASSERT_EQ(node.channel->flush(1, patience()), Outcome::done);
    }
    me.barrier();
    if (me.index() == 1) {
      EXPECT_EQ(look(node.words[1]), 42u);
      EXPECT_GT(node.events, 0);
    }
    me.barrier();
  });
  fleet.expect_success();
}

TEST(UcxEngine, AtomicsReturnTheOldValueAndStoreTheNew) {
  Fleet fleet(2, [](Member& me) {
    Node node(4096);
    node.meet(me);
    if (me.index() == 0) {
      std::uint64_t old = 0;
      ASSERT_EQ(node.run(Kind::fetch_add, 1, 0, &old, 8, patience(), 5), Outcome::done);
      EXPECT_EQ(old, 0u);
      ASSERT_EQ(node.run(Kind::compare_swap, 1, 0, &old, 8, patience(), 9, 4), Outcome::done);
      EXPECT_EQ(old, 5u);
      ASSERT_EQ(node.run(Kind::compare_swap, 1, 0, &old, 8, patience(), 9, 5), Outcome::done);
      EXPECT_EQ(old, 5u);
      ASSERT_EQ(node.run(Kind::swap, 1, 0, &old, 8, patience(), 7), Outcome::done);
      EXPECT_EQ(old, 9u);
    }
    me.barrier();
    EXPECT_EQ(look(node.words[0]), me.index() == 1 ? 7u : 0u);
    me.barrier();
  });
  fleet.expect_success();
}

// The claim of context.h: emulated atomics are locked instructions, atomic against each other and against those that
// other processes execute on the same memory.
TEST(UcxEngine, AtomicsLoseNoUpdateEvenAgainstTheOwnersInstructions) {
  constexpr std::uint64_t kRounds = 2000;
  Fleet fleet(3, [](Member& me) {
    Node node(4096);
    node.meet(me);
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      std::uint64_t old = 0;
      if (me.index() == 0) {
        for (int i = 0; i < 100; ++i) std::atomic_ref(node.words[0]).fetch_add(1);
      } else {
        ASSERT_EQ(node.run(Kind::fetch_add, 0, 0, &old, 8, patience(), 1), Outcome::done);
      }
    }
    me.barrier();
    EXPECT_EQ(look(node.words[0]), me.index() == 0 ? kRounds * 102 : 0);
    me.barrier();
  });
  fleet.expect_success();
}

// Many operations under way at once, far more than the transport's buffers hold, each with its own result.
TEST(UcxEngine, ManyOperationsUnderOneCompletion) {
  Fleet fleet(2, [](Member& me) {
    Node node(1 << 20);
    node.meet(me);
    if (me.index() == 0) {
      std::vector<std::uint64_t> old(1000);
      Completion completion;
      for (std::uint64_t& place : old) {
        node.channel->post({Kind::fetch_add, node.remotes[1].get(), 0, reinterpret_cast<std::byte*>(&place), 8, 1, 0},
                           completion);
      }
      node.channel->finish(completion, patience());
      ASSERT_EQ(completion.outcome, Outcome::done);
      std::sort(old.begin(), old.end());
      for (std::uint64_t i = 0; i < old.size(); ++i) EXPECT_EQ(old[i], i);
    }
    me.barrier();
  });
  fleet.expect_success();
}

// A fence must hold a later atomic back until earlier WRITEs took effect: data, then the word that announces it.
TEST(UcxEngine, FenceOrdersAWriteBeforeALaterAtomic) {
  Fleet fleet(2, [](Member& me) {
    Node node(1 << 20);
    node.meet(me);
    constexpr std::uint64_t kRounds = 200;
    constexpr std::uint64_t kData = 4096;
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      if (me.index() == 0) {
        std::vector<std::uint64_t> data(8192, round);
        std::uint64_t old = 0;
        ASSERT_EQ(node.write(1, kData, data.data(), data.size() * 8), Outcome::done);
        ASSERT_EQ(node.channel->fence(patience()), Outcome::done);
        ASSERT_EQ(node.run(Kind::fetch_add, 1, 0, &old, 8, patience(), 1), Outcome::done);
      } else {
        ASSERT_TRUE(eventually([&] { return look(node.words[0]) == round; }));
        for (const std::uint64_t word : {0u, 1000u, 8191u}) ASSERT_EQ(look(node.words[kData / 8 + word]), round);
      }
      me.barrier();
    }
  });
  fleet.expect_success();
}

// Whoever waits on a process that is killed must learn it in time, whatever it waits for; others go on.
TEST(UcxEngine, KilledPeerIsLostAndOthersGoOn) {
  Shared<std::atomic<bool>> over;  // a barrier would wait for the killed one
  Fleet fleet(3, [&over](Member& me) {
    Node node(4096);
    node.meet(me);
    std::uint64_t value = 1;
    if (me.index() == 0) {
      ASSERT_EQ(node.write(1, 0, &value, 8), Outcome::done);
      ASSERT_EQ(node.write(2, 0, &value, 8), Outcome::done);
    }
    me.barrier();
    if (me.index() == 1) ::raise(SIGKILL);
    if (me.index() != 0) return (void)eventually([&] { return over->load(); });

    const Time killed = monotonic_now();
    while (node.read(1, 0, &value, 8) == Outcome::done) {
    }
    EXPECT_LT(monotonic_now() - killed, 2s);
    EXPECT_EQ(node.channel->flush(1, patience()), Outcome::peer_lost);
    EXPECT_TRUE(eventually([&] { return node.engine->lost(1); }));
    EXPECT_EQ(node.write(1, 0, &value, 8), Outcome::peer_lost);
    EXPECT_EQ(node.write(2, 8, &value, 8), Outcome::done);
    EXPECT_EQ(node.channel->flush(2, patience()), Outcome::done);
    EXPECT_FALSE(node.engine->lost(2));
    *over = true;
  });
  EXPECT_TRUE(WIFSIGNALED(fleet.wait(1)));
  fleet.expect_success();
}

// One who never posted to a peer has only the engine's lifeline to learn its death by.
TEST(UcxEngine, DeathIsNoticedWithoutAnyTraffic) {
  Fleet fleet(2, [](Member& me) {
    Node node(4096);
    node.meet(me);
    const int events = node.events;
    me.barrier();
    if (me.index() == 1) ::raise(SIGKILL);
    EXPECT_TRUE(eventually([&] { return node.engine->lost(1); }, 2s));
    EXPECT_TRUE(eventually([&] { return node.events > events; }));
  });
  EXPECT_TRUE(WIFSIGNALED(fleet.wait(1)));
  fleet.expect_success();
}

// An operation that timed out must not touch its buffer when the peer goes on; and the channel must be of use again.
TEST(UcxEngine, StoppedPeerTimesOutAndDoesNoHarmLater) {
  Fleet fleet(2, [](Member& me) {
    Node node(1 << 20);
    node.meet(me);
    if (me.index() == 0) {
      std::uint64_t value = 1;
      ASSERT_EQ(node.write(1, 0, &value, 8), Outcome::done);
      ASSERT_EQ(node.channel->flush(1, patience()), Outcome::done);
      const pid_t target = std::stoi(me.exchange("")[1]);
      stop(target);

      std::vector<std::uint64_t> into(100000, 7);
      const Time started = monotonic_now();
      EXPECT_EQ(node.read(1, 0, into.data(), into.size() * 8, in(200ms)), Outcome::timed_out);
      EXPECT_LT(monotonic_now() - started, 2s);
      EXPECT_EQ(node.run(Kind::fetch_add, 1, 8, &value, 8, in(50ms), 1), Outcome::timed_out);

      ASSERT_EQ(::kill(target, SIGCONT), 0);
      EXPECT_EQ(node.read(1, 0, &value, 8), Outcome::done);
      EXPECT_EQ(value, 1u);
      EXPECT_EQ(into, std::vector<std::uint64_t>(100000, 7));
    } else {
      me.exchange(std::to_string(::getpid()));
    }
    me.barrier();
  });
  fleet.expect_success();
}

// A WRITE may be lost with the endpoint that a time-out closed, so the next flush must not say done.
TEST(UcxEngine, FlushReportsWritesThatATimeOutMayHaveLost) {
  Fleet fleet(2, [](Member& me) {
    Node node(4096);
    node.meet(me);
    if (me.index() == 0) {
      std::uint64_t value = 1;
      ASSERT_EQ(node.write(1, 0, &value, 8), Outcome::done);
      ASSERT_EQ(node.channel->flush(1, patience()), Outcome::done);
      const pid_t target = std::stoi(me.exchange("")[1]);
      stop(target);
      EXPECT_EQ(node.write(1, 0, &value, 8), Outcome::done);
      EXPECT_EQ(node.read(1, 0, &value, 8, in(50ms)), Outcome::timed_out);
      ASSERT_EQ(::kill(target, SIGCONT), 0);
      EXPECT_EQ(node.channel->flush(1, patience()), Outcome::timed_out);
      EXPECT_EQ(node.write(1, 0, &value, 8), Outcome::done);
      EXPECT_EQ(node.channel->flush(1, patience()), Outcome::done);
    } else {
      me.exchange(std::to_string(::getpid()));
    }
    me.barrier();
  });
  fleet.expect_success();
}

// The target takes the connections of one channel in their order. One that was given up before it greeted must neither
// shut the next out nor hide it from revoke. (UCX may fail the next one once, for they share a socket.)
TEST(UcxEngine, ConnectionGivenUpBeforeItsGreetingDoesNotShiftTheNext) {
  Fleet fleet(2, [](Member& me) {
    Node node(4096);
    node.meet(me);
    const auto addresses = me.exchange(node.engine->address());
    const auto handles = me.exchange(node.memory->handle());
    const auto pids = me.exchange(std::to_string(::getpid()));
    std::uint64_t value = 5;
    if (me.index() == 0) {
      stop(std::stoi(pids[1]));
      EXPECT_EQ(node.write(1, 0, &value, 8, in(50ms)), Outcome::timed_out);
      node.engine->mark_lost(1);
      EXPECT_EQ(node.write(1, 0, &value, 8), Outcome::peer_lost);
      node.engine->connect(1, addresses[1]);
      node.remotes[1] = std::make_unique<RemoteRegion>("test", 1, 4096, nullptr, node.engine->attach(1, handles[1]));
      EXPECT_EQ(node.write(1, 0, &value, 8, in(50ms)), Outcome::timed_out);
      ASSERT_EQ(::kill(std::stoi(pids[1]), SIGCONT), 0);
      EXPECT_TRUE(eventually([&] {
        return node.write(1, 0, &value, 8) == Outcome::done && node.channel->flush(1, patience()) == Outcome::done;
      }));
    }
    me.barrier();
    if (me.index() == 1) {
      EXPECT_EQ(look(node.words[0]), 5u);
      EXPECT_EQ(node.engine->revoke(0, patience()), Outcome::done);
    }
    me.barrier();
    if (me.index() == 0) {
      value = 6;
      (void)node.write(1, 0, &value, 8);
      EXPECT_EQ(node.channel->flush(1, patience()), Outcome::peer_lost);
    }
    me.barrier();
    EXPECT_EQ(look(node.words[0]), me.index() == 1 ? 5u : 0u);
    me.barrier();
  });
  fleet.expect_success();
}

// What a revoked peer posts must not land; it learns that it is out, and the others go on.
TEST(UcxEngine, RevokedPeerReachesNothingAnyMore) {
  Fleet fleet(3, [](Member& me) {
    Node node(4096);
    node.meet(me);
    std::uint64_t value = me.index();
    if (me.index() != 0) {
      ASSERT_EQ(node.write(0, 0, &value, 8), Outcome::done);
      ASSERT_EQ(node.channel->flush(0, patience()), Outcome::done);
    }
    me.barrier();
    if (me.index() == 0) {
      EXPECT_EQ(node.engine->revoke(1, patience()), Outcome::done);
      std::atomic_ref(node.words[1]).store(0);
      std::atomic_ref(node.words[2]).store(0);
    }
    me.barrier();
    if (me.index() != 0) {
      const Outcome expected = me.index() == 1 ? Outcome::peer_lost : Outcome::done;
      (void)node.write(0, me.index() * 8, &value, 8);
      EXPECT_EQ(node.channel->flush(0, patience()), expected);
      // The second time it would have to come in by a new endpoint.
      EXPECT_EQ(node.read(0, 0, &value, 8), expected);
    }
    me.barrier();
    if (me.index() == 0) {
      EXPECT_EQ(look(node.words[1]), 0u);
      EXPECT_EQ(look(node.words[2]), 2u);
    }
    me.barrier();
  });
  fleet.expect_success();
}

// A number whose process went may be given to another one.
TEST(UcxEngine, PeerNumberServesANewIncarnation) {
  Fleet fleet(3, [](Member& me) {
    Node node(4096);
    node.meet(me);
    const auto addresses = me.exchange(node.engine->address());
    const auto handles = me.exchange(node.memory->handle());
    if (me.index() == 0) {
      std::uint64_t value = 5;
      ASSERT_EQ(node.write(1, 0, &value, 8), Outcome::done);
      ASSERT_EQ(node.engine->revoke(1, patience()), Outcome::done);
      ASSERT_EQ(node.write(1, 0, &value, 8), Outcome::peer_lost);
      (void)node.channel->flush(1, patience());
      node.engine->connect(1, addresses[2]);
      EXPECT_FALSE(node.engine->lost(1));
      const RemoteRegion again("test", 1, 4096, nullptr, node.engine->attach(1, handles[2]));
      Completion completion;
      node.channel->post({Kind::write, &again, 8, reinterpret_cast<std::byte*>(&value), 8, 0, 0}, completion);
      node.channel->finish(completion, patience());
      EXPECT_EQ(completion.outcome, Outcome::done);
      EXPECT_EQ(node.channel->flush(1, patience()), Outcome::done);
    }
    me.barrier();
    EXPECT_EQ(look(node.words[1]), me.index() == 2 ? 5u : 0u);
    me.barrier();
  });
  fleet.expect_success();
}

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

// Connections are closed on both sides when a channel goes.
TEST(UcxEngine, ChannelsThatCameAndWentLeaveNoDescriptors) {
  Fleet fleet(2, [](Member& me) {
    Node node(4096);
    node.meet(me);
    const auto visit = [&] {
      node.channel = node.engine->open_channel();
      std::uint64_t value = 1;
      ASSERT_EQ(node.write(1, 0, &value, 8), Outcome::done);
    };
    if (me.index() == 0) visit();
    me.barrier();
    const std::size_t before = open_descriptors();
    for (int i = 0; i < 100 && me.index() == 0; ++i) visit();
    me.barrier();
    EXPECT_TRUE(eventually([&] { return open_descriptors() <= before; })) << before << " " << open_descriptors();
    me.barrier();
  });
  fleet.expect_success();
}

// Nor do endpoints that time-outs closed.
TEST(UcxEngine, TimeOutsLeaveNoDescriptors) {
  Fleet fleet(2, [](Member& me) {
    Node node(4096);
    node.meet(me);
    const auto pids = me.exchange(std::to_string(::getpid()));
    const auto time_out = [&] {
      std::uint64_t value = 1;
      const pid_t target = std::stoi(pids[1]);
      ASSERT_EQ(node.read(1, 0, &value, 8), Outcome::done);
      stop(target);
      ASSERT_EQ(node.read(1, 0, &value, 8, in(5ms)), Outcome::timed_out);
      ASSERT_EQ(::kill(target, SIGCONT), 0);
    };
    if (me.index() == 0) time_out();
    me.barrier();
    const std::size_t before = open_descriptors();
    for (int i = 0; i < 30 && me.index() == 0; ++i) time_out();
    me.barrier();
    EXPECT_TRUE(eventually([&] { return open_descriptors() <= before + 3; })) << before << " " << open_descriptors();
    me.barrier();
  });
  fleet.expect_success();
}

// With two cores and eight processes, nobody may burn one while nothing happens.
TEST(UcxEngine, IdleEngineUsesNoCpu) {
  Fleet fleet(2, [](Member& me) {
    Node node(4096);
    node.meet(me);
    std::uint64_t value = 1;
    ASSERT_EQ(node.write(1 - me.index(), 0, &value, 8), Outcome::done);
    me.barrier();
    std::this_thread::sleep_for(200ms);
    const std::clock_t before = std::clock();
    std::this_thread::sleep_for(2s);
    EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC / 20);
    me.barrier();
  });
  fleet.expect_success();
}

// UCX crashes on what it did not make itself, so nothing of the kind may get through to it.
TEST(UcxEngine, RefusesAddressesAndHandlesThatWereAltered) {
  Fleet fleet(1, [](Member& /*me*/) {
    Node node(4096);
    const std::string address = node.engine->address();
    node.engine->connect(0, address);
    const std::string handle = node.memory->handle();
    for (const std::string& right : {address, handle}) {
      for (std::size_t at = 0; at < right.size(); ++at) {
        std::string wrong = right;
        wrong[at] ^= 4;
        EXPECT_THROW(node.engine->connect(0, wrong), Error);
        EXPECT_THROW((void)node.engine->attach(0, wrong), Error);
        EXPECT_THROW(node.engine->connect(0, right.substr(0, at)), Error);
      }
    }
    EXPECT_THROW(node.engine->connect(0, handle), Error);
    EXPECT_THROW((void)node.engine->attach(0, address), Error);
    EXPECT_THROW((void)node.engine->attach(9, handle), Error);
  });
  fleet.expect_success();
}

TEST(UcxEngine, SaysWhatToDoWhenNoDeviceIsUsable) {
  Fleet fleet(1, [](Member& /*me*/) {
    ::setenv("UCX_NET_DEVICES", "nothing0", 1);
    try {
      const UcxEngine engine([] {});
      FAIL();
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("nothing0"), std::string::npos);
      EXPECT_NE(error.failure().remedy.find("UCX_NET_DEVICES"), std::string::npos);
    }
  });
  fleet.expect_success();
}

// Files in /dev/shm would outlive a killed process.
TEST(UcxEngine, KilledProcessLeavesNoSharedMemoryBehind) {
  const auto files = [] {
    const std::filesystem::directory_iterator all("/dev/shm");
    return std::distance(begin(all), end(all));
  };
  const auto before = files();
  Fleet fleet(2, [](Member& me) {
    Node node(4096);
    node.meet(me);
    std::uint64_t value = 1;
    ASSERT_EQ(node.write(1 - me.index(), 0, &value, 8), Outcome::done);
    me.barrier();
    ::raise(SIGKILL);
  });
  EXPECT_TRUE(WIFSIGNALED(fleet.wait(0)));
  EXPECT_TRUE(WIFSIGNALED(fleet.wait(1)));
  EXPECT_EQ(files(), before);
}

}  // namespace
}  // namespace farside::test
