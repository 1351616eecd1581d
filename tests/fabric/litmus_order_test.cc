// More of the memory model's rules of order (docs/protocols/fabric.md): what a fence waits for, what a flush covers,
// when a source buffer is free, what signals follow, and what is over when a peer's access was revoked.
#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/fabric/litmus.h"

namespace farside::test {
namespace {

constexpr std::uint64_t kFlag = 0;
constexpr std::uint64_t kCount = 8;
constexpr std::uint64_t kData = 4096;
constexpr std::size_t kWords = 512;
constexpr std::uint64_t kRegionBytes = kData + kWords * 8;

using Words = std::vector<std::uint64_t>;

Outcome fence(const Mesh& mesh, PeerId peer) { return mesh.channel->fence(peer, mesh.deadline()); }

/// Lets members of a fleet of `count` run `body` once a round, all at the same moment.
void in_rounds(unsigned count, std::uint64_t rounds, std::uint64_t region_bytes,
               const std::function<void(Member&, const Mesh&, std::uint64_t)>& body) {
  const Shared<StartLine> line;
  Fleet fleet(count, [&](Member& me) {
    const Mesh mesh = make_mesh(me, region_bytes);
    for (std::uint64_t round = 1; round <= rounds; ++round) {
      line->meet(count);
      body(me, mesh, round);
      line->meet(count);
    }
    me.barrier();
  });
  fleet.expect_success();
}

/// How many of the words at kData of this member's own region are not those of `round`.
std::ptrdiff_t others_than(const Mesh& mesh, std::uint64_t round, std::size_t words = kWords) {
  Words found(words);
  mesh.local->copy_out(kData, std::as_writable_bytes(std::span(found)));
  return std::ranges::count_if(found, [&](std::uint64_t word) { return word != written_in(round); });
}

void wait_for_flag(const Mesh& mesh, std::uint64_t round) {
  const auto flag = mesh.local->word<ControlWord>(kFlag);
  look_until([&] { return flag.load() == written_in(round); });
  mesh.channel->local_fence();
}

// Rule 3: once a WRITE has completed its source is the caller's again. What is stored there then does not arrive.
TEST(SourceBuffer, IsFreeOnceTheWriteCompleted) {
  for (const std::size_t words : {std::size_t{1}, kWords, std::size_t{1} << 17}) {
    in_rounds(2, std::min<std::uint64_t>(kRounds, 100), kData + words * 8,
              [words](Member& me, const Mesh& mesh, std::uint64_t round) {
                if (me.index() == 0) {
                  Words source(words, written_in(round));
                  const LocalSpan span(source.data(), words * 8);
                  const auto place = mesh.at(1).span(kData, words * 8);
                  ASSERT_EQ(mesh.channel->write(place, span, mesh.deadline()), Outcome::done);
                  std::ranges::fill(source, ~std::uint64_t{0});
                  ASSERT_EQ(mesh.channel->flush(1, mesh.deadline()), Outcome::done);
                }
                me.barrier();
                if (me.index() == 1) {
                  ASSERT_EQ(others_than(mesh, round, words), 0);
                }
              });
  }
}

// Rule 2: a fence waits for earlier READs: a WRITE after it is not in what they bring.
TEST(Fence, KeepsLaterWritesOutOfEarlierReads) {
  in_rounds(2, kRounds, kRegionBytes, [](Member& me, const Mesh& mesh, std::uint64_t round) {
    if (me.index() != 0) return;
    const auto place = mesh.at(1).span(kData, kWords * 8);
    Words found(kWords);
    Words next(kWords, written_in(round));
    Batch batch(*mesh.channel);
    batch.read(LocalSpan(found.data(), kWords * 8), place);
    ASSERT_EQ(fence(mesh, 1), Outcome::done);
    batch.write(place, LocalSpan(next.data(), kWords * 8));
    ASSERT_EQ(batch.wait(mesh.deadline()), Outcome::done);
    ASSERT_EQ(mesh.channel->flush(1, mesh.deadline()), Outcome::done);
    ASSERT_EQ(std::ranges::count(found, written_in(round - 1)), static_cast<std::ptrdiff_t>(kWords));
  });
}

// Rule 2: a fence waits for earlier atomics: where the flag after it is seen, all three have taken effect.
TEST(Fence, PutsAtomicsBeforeLaterWrites) {
  in_rounds(2, kRounds, kRegionBytes, [](Member& me, const Mesh& mesh, std::uint64_t round) {
    const auto word = [&](std::uint64_t index) { return mesh.at(1).word<AtomicWord>(kCount + 8 * index); };
    if (me.index() == 0) {
      std::array<std::uint64_t, 3> old{};
      std::uint64_t flag = written_in(round);
      Batch batch(*mesh.channel);
      batch.fetch_add(word(0), written_in(1), old[0]);
      batch.swap(word(1), written_in(round), old[1]);
      batch.compare_swap(word(2), written_in(round - 1), written_in(round), old[2]);
      ASSERT_EQ(fence(mesh, 1), Outcome::done);
      batch.write(mesh.at(1).span(kFlag, 8), LocalSpan(flag));
      ASSERT_EQ(batch.wait(mesh.deadline()), Outcome::done);
      ASSERT_EQ(mesh.channel->flush(1, mesh.deadline()), Outcome::done);
      for (const std::uint64_t of_one : old) ASSERT_EQ(of_one, written_in(round - 1));
    } else {
      wait_for_flag(mesh, round);
      for (std::uint64_t i = 0; i < 3; ++i) {
        ASSERT_EQ(mesh.channel->load(word(i), mesh.deadline()).value, written_in(round));
      }
    }
  });
}

/// Member 0 WRITEs data to members 1 and 2 and to itself, then lets `order` and a flag for 1 follow.
void run_three_targets(const std::function<Outcome(const Mesh&, Channel& flags)>& order) {
  const std::uint64_t rounds = std::min<std::uint64_t>(kRounds, 100);  // each takes a channel of its own
  in_rounds(3, rounds, kRegionBytes, [&](Member& me, const Mesh& mesh, std::uint64_t round) {
    if (me.index() == 0) {
      Words data(kWords, written_in(round));
      Batch batch(*mesh.channel);
      for (const PeerId at : {0U, 1U, 2U}) {
        batch.write(mesh.at(at).span(kData, kWords * 8), LocalSpan(data.data(), kWords * 8));
      }
      const std::unique_ptr<Channel> flags = mesh.fabric->open_channel();
      ASSERT_EQ(order(mesh, *flags), Outcome::done);
      ASSERT_EQ(flags->store(mesh.at(1).word<ControlWord>(kFlag), written_in(round), mesh.deadline()), Outcome::done);
      ASSERT_EQ(flags->flush(1, mesh.deadline()), Outcome::done);
      ASSERT_EQ(batch.wait(mesh.deadline()), Outcome::done);
    } else if (me.index() == 1) {
      wait_for_flag(mesh, round);
      Words found(kWords);
      for (const PeerId at : {0U, 1U, 2U}) {
        const auto place = mesh.at(at).span(kData, kWords * 8);
        ASSERT_EQ(mesh.channel->read(LocalSpan(found.data(), kWords * 8), place, mesh.deadline()), Outcome::done);
        ASSERT_EQ(std::ranges::count(found, written_in(round)), static_cast<std::ptrdiff_t>(kWords)) << at;
      }
    }
  });
}

// Rule 2: flush_all covers every target, and what it covers is there before anything that another channel then posts.
TEST(Flush, OfAllOrdersAcrossTargetsAndChannels) {
  run_three_targets([](const Mesh& mesh, Channel&) { return mesh.channel->flush_all(mesh.deadline()); });
}

TEST(Flush, OfEachOrdersAcrossTargetsAndChannels) {
  run_three_targets([](const Mesh& mesh, Channel&) {
    return mesh.channel->flush_each(std::array<PeerId, 3>{0, 1, 2}, mesh.deadline());
  });
}

// Rule 3: signals to several targets follow what was posted to each of them, and wake each.
TEST(Signals, ToSeveralTargetsFollowWhatEachGot) {
  in_rounds(4, std::min<std::uint64_t>(kRounds, 200), kRegionBytes,
            [](Member& me, const Mesh& mesh, std::uint64_t round) {
              if (me.index() == 0) {
                Words data(kWords, written_in(round));
                Batch batch(*mesh.channel);
                std::vector<RemoteWord<ControlWord>> words;
                for (const PeerId at : {1U, 2U, 3U}) {
                  batch.write(mesh.at(at).span(kData, kWords * 8), LocalSpan(data.data(), kWords * 8));
                  words.push_back(mesh.at(at).word<ControlWord>(kFlag));
                }
                ASSERT_EQ(mesh.channel->write_signals(words, written_in(round), mesh.deadline()), Outcome::done);
                ASSERT_EQ(batch.wait(mesh.deadline()), Outcome::done);
              } else {
                const auto is_told = [round](std::uint64_t word) { return word == written_in(round); };
                const auto flag = mesh.local->word<ControlWord>(kFlag);
                ASSERT_EQ(mesh.channel->wait_until(*mesh.local, flag, is_told, mesh.deadline()), Outcome::done);
                mesh.channel->local_fence();
                ASSERT_EQ(others_than(mesh, round), 0);
              }
            });
}

// Rule 5: whatever was under way when access was revoked, megabytes of it, nothing lands once `revoke` returned.
TEST(Revocation, EndsMegabytesUnderWay) {
  constexpr std::size_t kMany = std::size_t{1} << 20;
  const Shared<std::atomic<std::uint64_t>> writes;
  Fleet fleet(2, [&](Member& me) {
    const Mesh mesh = make_mesh(me, kMany * 8);
    if (me.index() == 1) {
      Words data(kMany);
      Outcome written = Outcome::done;
      for (std::uint64_t round = 1; written == Outcome::done; ++round) {
        std::ranges::fill(data, written_in(round));
        Batch batch(*mesh.channel);
        for (std::size_t part = 0; part < 4; ++part) {
          batch.write(mesh.at(0).span(part * kMany * 2, kMany * 2),
                      LocalSpan(data.data() + part * kMany / 4, kMany * 2));
        }
        ++*writes;
        written = batch.wait(mesh.deadline());
      }
      return;
    }
    ASSERT_TRUE(eventually([&] { return *writes >= 3; }));
    ASSERT_EQ(mesh.fabric->revoke(1, mesh.deadline()), Outcome::done);
    Words first(kMany);
    Words later(kMany);
    mesh.local->copy_out(0, std::as_writable_bytes(std::span(first)));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // what would land lands
    mesh.local->copy_out(0, std::as_writable_bytes(std::span(later)));
    EXPECT_EQ(first, later);
  });
  EXPECT_EQ(fleet.wait(0), 0);
}

}  // namespace
}  // namespace farside::test
