// What a client can do while a node that lends memory does not answer for longer than the client's deadlines, and what
// it finds when the node continues (docs/protocols/far.md, "A node that does not answer").
#include <gtest/gtest.h>

#include "far/protocol/lender_watch.h"
#include "far/protocol/striped_space.h"
#include "far/time_limits.h"
#include "tests/sim/far/far_nodes.h"
#include "tests/sim/faults_met.h"

namespace farside::sim {
namespace {

using team::Rank;

using namespace std::chrono_literals;

constexpr std::uint64_t kSeeds = 100;
constexpr std::uint32_t kNever = 1U << 30U;  // looks after which a node is given up
constexpr Duration kGiveBackHang = 2 * far::time_limits::kGiveBack;

/// One client, which mirrors its space unless it is to have one copy. The node that hangs is 0, which has the first
/// copy of some slabs.
class HangRun {
 public:
  static constexpr std::uint64_t kSlabs = 4;
  static constexpr std::uint64_t kNewSlabs = 2;
  static constexpr std::uint64_t kSlabBytes = FarNodes::kSlabBytes;
  static constexpr Duration kDeadline = 100ms;
  static constexpr Duration kHang = 3 * kDeadline;

  HangRun(std::uint64_t seed, Rank nodes, std::uint32_t looks, const far::FarRules& rules, std::uint32_t copies = 2)
      : copies_(copies),
        scenario_(draw(seed, nodes, looks, rules, copies)),
        world_(seed, nodes + 1, scenario_.network),
        nodes_(world_, scenario_) {}

  /// Runs `act` when `value` was written everywhere, and returns what went wrong.
  template <class Act>
  std::optional<std::string> run(Act act) {
    for (Rank rank = 0; rank < scenario_.nodes; ++rank) {
      world_.on(rank, [this, rank] { nodes_.lend(rank); });
    }
    world_.on(client(), [this, act] {
      begin();
      act(*this);
      over_ = true;
      world_.heal();
      nodes_.leave(0);
    });
    if (!world_.run(60s)) fail("it does not end");
    return violation_;
  }

  [[nodiscard]] World& world() noexcept { return world_; }
  void hang(Rank node, Duration duration = kHang) {
    const ProcessId process = world_.fabric(node).process();
    const ProcessId to = fabric().process();
    world_.pause(node, duration);
    world_.wires().stall(process, to, duration);
    world_.wires().stall(to, process, duration);
  }
  void kill(Rank node) { world_.kill(node); }
  void sleep(Duration duration) { fabric().sleep(duration); }

  void write(std::uint64_t value) {
    for (std::uint64_t slab = 0; slab < kSlabs; ++slab) write(slab, value);
  }
  /// Slabs that nothing was written to take memory where there is some.
  void write_new(std::uint64_t value) {
    for (std::uint64_t slab = kSlabs; slab < kSlabs + kNewSlabs; ++slab) write(slab, value);
  }
  void expect_read(std::uint64_t value) {
    for (std::uint64_t slab = 0; slab < kSlabs; ++slab) {
      std::uint64_t word = 0;
      const far::Transfer transfer{slab * kSlabBytes, LocalSpan(word)};
      expect(io_->read({&transfer, 1}, fabric().in(kDeadline)), "a read");
      if (word != value) fail("a read found " + std::to_string(word));
    }
  }
  void discard() {
    expect(io_->discard(0, kSlabs * kSlabBytes, fabric().in(2 * far::time_limits::kGiveBack)), "a discard");
  }
  void repair_meanwhile() {
    world_.on(client(), [this] {
      while (!over_) {
        (void)space_->slabs().repair(fabric().in(kDeadline));
        sleep(1ms);
      }
    });
  }
  /// Nodes have all slabs again soon, whatever they did not confirm.
  void await_given_back(Duration limit) {
    const Deadline deadline = fabric().in(limit);
    while (nodes_.look() && fabric().now() < deadline.at) sleep(1ms);
    if (const auto wrong = nodes_.look()) fail(*wrong);
  }
  /// The next that the user is told of node 0, within `limit`.
  void await_told(far::LenderWatch::News news, Duration limit) {
    const Deadline deadline = fabric().in(limit);
    while (told_.empty() && fabric().now() < deadline.at) sleep(1ms);
    if (told_.size() != 1 || told_.front() != news)
      fail("the user was told " + std::to_string(told_.size()) + " things");
    told_.clear();
  }
  void expect_lost(Rank node, bool lost) {
    if (fabric().lost(node) != lost) fail(lost ? "a node was not given up" : "a node was given up");
  }

 private:
  [[nodiscard]] static FarScenario draw(std::uint64_t seed, Rank nodes, std::uint32_t looks, const far::FarRules& rules,
                                        std::uint32_t copies) {
    Scheduler dice(mix(seed));
    FarScenario scenario;
    scenario.nodes = nodes;
    scenario.clients = 1;
    scenario.slabs = 8;
    scenario.copies = copies;
    scenario.rules = rules;
    scenario.limits.looks = looks;
    scenario.limits.noticeable = kHang / 6;
    scenario.network = draw_network(dice);
    scenario.network.revoking_kills = false;
    scenario.network.clocks_stop = false;
    // Otherwise looks that timed out hold up those that follow, and a node that continues seems to hang.
    if (copies == 1) scenario.network.replaces_links = true;
    // What a node gave when a link broke just then comes back with the client's end.
    if (copies == 1) scenario.network.breaks_links = false;
    scenario.network.long_latency = 100us;
    scenario.network.detection = 2 * kHang;  // a death shows by silence first
    return scenario;
  }

  void begin() {
    while (!nodes_.all_lend()) fabric().sleep(20us);
    space_ = std::make_unique<far::StripedSpace>(
        fabric(), client(), far::SpaceShape{(kSlabs + kNewSlabs) * kSlabBytes, kSlabBytes, copies_}, scenario_.rules,
        scenario_.limits);
    for (Rank node = 0; node < scenario_.nodes; ++node) space_->slabs().add(nodes_.join(0, node));
    io_ = space_->open_io();
    world_.on(client(), [this] {
      far::LenderWatch watch(space_->slabs());
      while (!over_) {
        for (const far::LenderWatch::Event& event : watch.look()) {
          if (event.peer == 0) told_.push_back(event.news);
        }
        fabric().sleep(100us);
      }
    });
  }

  void write(std::uint64_t slab, std::uint64_t value) {
    const far::Transfer transfer{slab * kSlabBytes, LocalSpan(value)};
    expect(io_->write({&transfer, 1}, fabric().in(kDeadline)), "a write");
  }
  void expect(far::Status status, const std::string& what) {
    if (status != far::Status::done) fail(what + " ended as " + std::string(to_string(status)));
  }
  void fail(const std::string& what) {
    if (!violation_) violation_ = what;
  }
  [[nodiscard]] Rank client() const { return scenario_.nodes; }
  [[nodiscard]] SimFabric& fabric() { return world_.fabric(client()); }

  const std::uint32_t copies_;
  const FarScenario scenario_;
  World world_;
  FarNodes nodes_;
  std::unique_ptr<far::StripedSpace> space_;
  std::unique_ptr<far::IoContext> io_;
  std::vector<far::LenderWatch::News> told_;  ///< of node 0
  bool over_ = false;
  std::optional<std::string> violation_;
};

/// What a client does on so many nodes, of which it gives one up after so many looks.
struct Hang {
  Rank nodes;
  std::uint32_t looks;
  void (*act)(HangRun& run);
  std::uint32_t copies = 2;
};

void expect_kept_in(const Hang& hang, std::uint64_t seeds = kSeeds) {
  expect_kept(seeds, [&](std::uint64_t seed, FaultCount& count) {
    HangRun run(seed, hang.nodes, hang.looks, {}, hang.copies);
    run.world().wires().count_faults(count);
    return run.run(hang.act);
  });
}
bool caught(const Hang& hang, const far::FarRules& rules) {
  return noticed(first_violation(kSeeds, [&](std::uint64_t seed) {
    return HangRun(seed, hang.nodes, hang.looks, rules, hang.copies).run(hang.act);
  }));
}

constexpr Hang kReadWhileOneHangs{2, kNever, [](HangRun& run) {
                                    run.write(1);
                                    run.hang(0);
                                    run.expect_read(1);
                                    run.expect_lost(0, false);
                                  }};

// And what was written to one copy only is not read from the other, when its node continues.
constexpr Hang kWriteWhileOneHangs{2, 3, [](HangRun& run) {
                                     run.write(1);
                                     run.hang(0);
                                     run.write(2);
                                     run.expect_read(2);
                                     run.expect_lost(0, true);
                                     run.sleep(HangRun::kHang);
                                     run.expect_read(2);
                                     run.write(3);
                                     run.expect_read(3);
                                   }};

// One hangs, and the other one, as silent, is dead: then the one that hangs has the last copy.
constexpr Hang kHangWhileTheOtherDies{2, 3, [](HangRun& run) {
                                        run.write(1);
                                        run.hang(0);
                                        run.kill(1);
                                        run.sleep(HangRun::kHang);
                                        run.expect_lost(0, false);
                                      }};

// Without a mirror what it has is waited for, and it is not given up. The user is told, once, and new data goes
// elsewhere.
constexpr Hang kHangWithoutAMirror{2, 500,
                                   [](HangRun& run) {
                                     using News = far::LenderWatch::News;
                                     run.write(1);
                                     run.hang(0);
                                     run.await_told(News::unresponsive, HangRun::kHang);
                                     run.write_new(1);
                                     run.expect_lost(0, false);
                                     run.await_told(News::answers_again, 10 * HangRun::kHang);
                                     run.expect_read(1);
                                   },
                                   1};

// It does not say in time that it has taken a slab back, whether it has or not.
constexpr Hang kDiscardWhileOneHangs{2, kNever,
                                     [](HangRun& run) {
                                       run.repair_meanwhile();
                                       run.write(1);
                                       run.hang(0, kGiveBackHang);
                                       for (std::uint64_t value = 2; value < 16; ++value) {
                                         run.discard();
                                         run.write(value);
                                         run.sleep(kGiveBackHang / 10);
                                         run.expect_read(value);
                                       }
                                       run.discard();
                                       run.await_given_back(5 * kGiveBackHang);
                                     },
                                     1};

TEST(FarHangSim, SlabsComeBackThatAHangingNodeWasGiven) { expect_kept_in(kDiscardWhileOneHangs, kSeeds / 4); }

TEST(FarHangSim, SaysWhichNodeHangsWithoutAMirror) { expect_kept_in(kHangWithoutAMirror); }

TEST(FarHangSim, ReadsGoToTheOtherCopyWhileANodeHangs) { expect_kept_in(kReadWhileOneHangs); }
TEST(FarHangSimRules, CatchesAReaderThatWaitsForIt) {
  EXPECT_TRUE(caught(kReadWhileOneHangs, {.reads_other_copy = false}));
}

TEST(FarHangSim, WritesGoOnWhileANodeHangsAndItsCopyIsNotReadAgain) { expect_kept_in(kWriteWhileOneHangs); }
TEST(FarHangSimRules, CatchesANodeThatIsWaitedForWithoutEnd) {
  EXPECT_TRUE(caught(kWriteWhileOneHangs, {.gives_up_unresponsive = false}));
}

TEST(FarHangSim, KeepsANodeWhileTheOtherDoesNotAnswerEither) { expect_kept_in(kHangWhileTheOtherDies); }
TEST(FarHangSimRules, CatchesANodeGivenUpForOneThatDoesNotAnswer) {
  EXPECT_TRUE(caught(kHangWhileTheOtherDies, {.gives_up_one_of_several = false}));
}

}  // namespace
}  // namespace farside::sim
