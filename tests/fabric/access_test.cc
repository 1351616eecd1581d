// What every operation does between two processes, in its simplest form.
#include <array>
#include <vector>

#include <gtest/gtest.h>

#include "farside/base/error.h"

#include "tests/support/mesh.h"

namespace farside::test {
namespace {

// Everything else stands on this: what one process writes and flushes, its owner and a third process read.
TEST(Access, WriteIsSeenByOwnerAndByOthersAfterFlush) {
  Fleet fleet(3, [](Member& me) {
    const Mesh mesh = make_mesh(me, 4096);
    if (me.index() == 0) {
      std::array<char, 6> text{"hello"};
      ASSERT_EQ(mesh.channel->write(mesh.at(1).span(100, 6), LocalSpan(text), mesh.deadline()), Outcome::done);
      ASSERT_EQ(mesh.channel->flush(1, mesh.deadline()), Outcome::done);
    }
    me.barrier();
    std::array<char, 6> text{};
    if (me.index() == 1) mesh.local->copy_out(100, std::as_writable_bytes(std::span(text)));
    if (me.index() != 1) {
      ASSERT_EQ(mesh.channel->read(LocalSpan(text), mesh.at(1).span(100, 6), mesh.deadline()), Outcome::done);
    }
    EXPECT_STREQ(text.data(), "hello");
    me.barrier();
  });
  fleet.expect_success();
}

// Each atomic returns the old value and leaves the new one, at a peer and through the loopback.
TEST(Access, AtomicsReturnTheOldValue) {
  Fleet fleet(2, [](Member& me) {
    const Mesh mesh = make_mesh(me, 4096);
    const auto word = mesh.at(0).word<AtomicWord>(8);
    const auto run = [&](const Result<std::uint64_t>& fetched, std::uint64_t old) {
      EXPECT_TRUE(fetched.done());
      EXPECT_EQ(fetched.value, old);
    };
    for (unsigned turn = 0; turn < me.count(); ++turn) {
      if (turn == me.index()) {
        run(mesh.channel->swap(word, 5, mesh.deadline()), turn == 0 ? 0 : 9);
        run(mesh.channel->fetch_add(word, 2, mesh.deadline()), 5);
        run(mesh.channel->compare_swap(word, 6, 1, mesh.deadline()), 7);
        run(mesh.channel->compare_swap(word, 7, 9, mesh.deadline()), 7);
        run(mesh.channel->load(word, mesh.deadline()), 9);
      }
      me.barrier();
    }
  });
  fleet.expect_success();
}

// A batch returns from wait when all of it is done, whatever is in it.
TEST(Access, BatchAwaitsAllOfIt) {
  Fleet fleet(2, [](Member& me) {
    const Mesh mesh = make_mesh(me, 4096);
    if (me.index() == 0) {
      std::uint64_t first = 11;
      std::uint64_t old = 99;
      Batch batch(*mesh.channel);
      batch.write(mesh.at(1).span(0, 8), LocalSpan(first));
      batch.fetch_add(mesh.at(1).word<AtomicWord>(64), 4, old);
      ASSERT_EQ(batch.wait(mesh.deadline()), Outcome::done);
      EXPECT_EQ(old, 0U);
      ASSERT_EQ(mesh.channel->flush(1, mesh.deadline()), Outcome::done);
      std::array<std::uint64_t, 2> found{};
      batch.read(LocalSpan(found[0]), mesh.at(1).span(0, 8));
      batch.read(LocalSpan(found[1]), mesh.at(1).span(64, 8));
      ASSERT_EQ(batch.wait(mesh.deadline()), Outcome::done);
      EXPECT_EQ(found, (std::array<std::uint64_t, 2>{11, 4}));
    }
    me.barrier();
  });
  fleet.expect_success();
}

// The two turn each other's word over, so each of the waits must end by the other's signal.
TEST(Access, SignalsWakeWaitersBothWays) {
  Fleet fleet(2, [](Member& me) {
    const Mesh mesh = make_mesh(me, 4096);
    const unsigned other = 1 - me.index();
    const auto ball = mesh.local->word<ControlWord>(0);
    for (std::uint64_t round = 1; round <= 1000; ++round) {
      const auto hit = [&] {
        return mesh.channel->write_signal(mesh.at(other).word<ControlWord>(0), round, mesh.deadline());
      };
      if (me.index() == 0) {
        ASSERT_EQ(hit(), Outcome::done);
      }
      const auto came = [&](std::uint64_t value) { return value == round; };
      ASSERT_EQ(mesh.channel->wait_until(*mesh.local, ball, came, mesh.deadline()), Outcome::done);
      if (me.index() == 1) {
        ASSERT_EQ(hit(), Outcome::done);
      }
    }
  });
  fleet.expect_success();
}

}  // namespace
}  // namespace farside::test
