// A partition whose two copies are on disks. Its servers are killed, both at once as well, between any two steps and
// within those that touch a disk, and started again with what their disks had by then; and a disk is lost. What was
// acknowledged is found again by whatever server serves, or none does, and an operator must decide.
//
// A killed process takes with it what it had not given to the system.
#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "farside/fabric/host.h"

#include "kv/journal/durable_copy.h"
#include "kv/service/partition_server.h"
#include "tests/kv/journal/mortal_process.h"
#include "tests/kv/server/store_fixture.h"
#include "tests/support/pool.h"

namespace farside::kv::test {
namespace {

namespace fs = std::filesystem;

constexpr Partition kPartition{0, 1};
constexpr std::uint64_t kSession = 7;
constexpr std::size_t kKeys = 6;
constexpr std::uint64_t kStoreBytes = 256U << 10U;
constexpr std::uint64_t kRingBytes = 4096;

/// How often it came to what the test is about.
struct Met {
  int acknowledged = 0;
  int promoted = 0;
  int from_disk = 0;
  int looks_at_disks = 0;
  int left_to_the_operator = 0;
};

class CopiesRun {
 public:
  CopiesRun(std::uint64_t seed, const ReplicaRules& rules, Met& met)
      : dice_(seed), rules_(rules), met_(met), may_lose_disk_(seed % 4 == 0) {
    host_->connect(0, host_->address());
    // While a primary waits for its standby.
    clock_.on_sleep = [this] {
      if (steps_under_way_.size() != 1) return;
      const unsigned seat = steps_under_way_.front();
      step(1 - seat);
      maybe_die();
    };
  }

  std::optional<std::string> run() {
    for (int round = 0; round < kSteps && !violation_ && !is_left_; ++round) {
      clock_.pass(std::chrono::milliseconds(1));
      const unsigned seat = one_in(2) ? 1 : 0;
      switch (dice_() % 8) {
        case 0:
        case 1: ask(); break;
        case 2:
          if (one_in(30)) kill(seat);
          break;
        case 3:
          if (!processes_[seat] && one_in(3)) start(seat, false);
          break;
        case 4:
          if (may_lose_disk_ && !processes_[seat] && !has_lost_disk_ && one_in(20)) lose_disk(seat);
          break;
        case 5:
          if (one_in(20)) look_at_the_standbys_disk();
          break;
        default: step(seat);
      }
      succeed();
    }
    finish();
    return violation_;
  }

 private:
  static constexpr int kSteps = 1500;
  static constexpr int kMaxStepsToTheEnd = 3000;

  struct Process {
    Process(CopiesRun& run, unsigned its_seat, bool goes_on)
        : seat(its_seat),
          id(++run.last_id_),
          memory(run.clock_.create_region("memory", kStoreBytes)),
          ring(run.clock_.create_region("ring", kRingBytes)),
          channel(run.clock_.open_channel()),
          disk({.directory = run.directory(seat), .sync = SyncPolicy::always}, kPartition, seat),
          fatal(disk, [&run] { run.maybe_die(); }),
          server(run.clock_, *channel, *memory, client, run.settings(), run.role(*this, goes_on)) {}

    const unsigned seat;
    const std::uint64_t id;
    std::optional<std::uint64_t> taught_by{};  ///< the process that ships to it
    std::optional<std::uint64_t> teaches{};
    std::unique_ptr<Region> memory;
    std::unique_ptr<Region> ring;
    std::unique_ptr<Channel> channel;
    std::vector<std::unique_ptr<RemoteRegion>> rings;  ///< of its standbys
    OneClient client;
    DurableCopy disk;
    FatalDisk fatal;
    PartitionServer server;
  };

  // ---- Processes

  [[nodiscard]] PartitionSettings settings() const {
    return {.partition = kPartition, .store = {.bytes = kStoreBytes}, .replica_rules = rules_};
  }
  [[nodiscard]] StandbyServer role(Process& process, bool goes_on) {
    return {.ring = *process.ring,
            .begins = ShippedLog::Begins::empty,
            .leases = {},
            .cut_off = [](PeerId) { return true; },
            .is_primary_dead = [this, &process] { return process.taught_by && !lives(*process.taught_by); },
            .take_primarys_access = [] { return true; },
            .note_given_up =
                [this](std::string_view flaw) {
                  if (flaw.find("before all was copied") == std::string_view::npos) fail(std::string(flaw));
                },
            .promoted = {.standby = {},
                         .is_standby_dead = [this, &process] { return !lives(process.teaches.value()); },
                         .reach_again = [] { return std::nullopt; },
                         .note_standing =
                             [this, &process](ShippingJournal::Standing standing, bool) {
                               if (standing == ShippingJournal::Standing::alone) left_.push_back(*process.teaches);
                             },
                         .find_another = [this, &process] { return find_another(process); },
                         .retract_alone = [] { return true; },
                         .shipping = {.awaits_taking = true}},
            .timeouts = {},
            .disk = &process.fatal,
            .goes_on = goes_on};
  }
  [[nodiscard]] std::optional<ShippingJournal::Way> find_another(Process& primary) {
    const auto& other = processes_[1 - primary.seat];
    if (!waits(other)) return std::nullopt;
    other->taught_by = primary.id;
    primary.teaches = other->id;
    primary.rings.push_back(clock_.attach(0, other->ring->handle()));
    return ShippingJournal::Way{primary.rings.back().get()};
  }
  [[nodiscard]] static bool waits(const std::unique_ptr<Process>& process) {
    return process != nullptr && !process->server.serves() && !process->taught_by;
  }
  [[nodiscard]] bool lives(std::uint64_t id) const {
    return std::ranges::any_of(processes_, [id](const auto& each) { return each != nullptr && each->id == id; });
  }

  void start(unsigned seat, bool goes_on) {
    try {
      processes_[seat] = std::make_unique<Process>(*this, seat, goes_on);
    } catch (const Died&) {
      return;
    }
    if (!goes_on) return;
    ++met_.from_disk;
    is_new_ = false;
    judge(seat);
  }
  void step(unsigned seat) {
    Process* const process = processes_[seat].get();
    if (process == nullptr) return;
    const bool did_serve = process->server.serves();
    steps_under_way_.push_back(seat);
    bool is_dead = false;
    try {
      process->server.serve_until([asked = false]() mutable { return std::exchange(asked, true); });
    } catch (const Died&) {
      is_dead = true;
    }
    steps_under_way_.pop_back();
    if (is_dead) return kill(seat);
    if (process->server.has_given_up()) return kill(seat);  // and it begins anew
    take_replies(*process);
    if (!did_serve && process->server.serves()) {
      ++met_.promoted;
      judge(seat);
    }
    for (const std::uint64_t left : std::exchange(left_, {})) {
      for (unsigned other = 0; other < 2; ++other) {
        if (processes_[other] != nullptr && processes_[other]->id == left) kill(other);
      }
    }
  }
  /// Files have what they had; the process does not write any more.
  void kill(unsigned seat) {
    if (processes_[seat] == nullptr) return;
    const fs::path kept = directory(seat).string() + ".kept";
    copy_directory(directory(seat), kept);
    if (processes_[seat]->server.serves()) under_way_ = 0;
    processes_[seat].reset();
    fs::remove_all(directory(seat));
    fs::rename(kept, directory(seat));
  }
  void maybe_die() {
    if (!is_ending_ && one_in(200)) throw Died();
  }
  void lose_disk(unsigned seat) {
    fs::remove_all(directory(seat));
    has_lost_disk_ = true;
  }
  /// As Service and KvServer do.
  void succeed() {
    if (!waits(processes_[0]) || !waits(processes_[1])) return;
    const CopyClaim first = processes_[0]->disk.claim();
    const CopyClaim second = processes_[1]->disk.claim();
    const Successor successor = successor_of(first, second, is_new_);
    if (successor == Successor::neither) {
      ++met_.left_to_the_operator;
      is_left_ = true;
      if (!has_lost_disk_) fail("no copy goes on: " + to_string(first) + "; " + to_string(second));
      return;
    }
    const unsigned seat = successor == Successor::first_seat ? 0 : 1;
    processes_[seat].reset();
    start(seat, true);
  }

  // ---- The client

  [[nodiscard]] static std::string key(std::size_t number) { return "key " + std::to_string(number); }
  void ask() {
    if (under_way_ != 0) return;
    for (const auto& process : processes_) {
      if (process == nullptr || !process->server.serves()) continue;
      Request request{.kind = RequestKind::put, .session = kSession, .timestamp = {++time_, kSession}};
      const std::size_t number = dice_() % kKeys;
      const std::string name = key(number);
      const std::string value(dice_() % 300, 'v');
      request.writes.push_back({.key = name, .value = value, .erase = one_in(8)});
      asked_[time_] = {number, request.writes.front().erase};
      process->client.ask(request.encode());
      under_way_ = time_;
      return;
    }
  }
  void take_replies(Process& process) {
    for (const Message& each : process.client.take_replies()) {
      const auto reply = Reply::decode(each);
      if (reply && reply->answer == Answer::done) {
        acknowledged_[asked_.at(under_way_).key] = under_way_;
        ++met_.acknowledged;
      }
      under_way_ = 0;
    }
  }

  // ---- What must hold

  /// Of each key the newest version is the one that was acknowledged last, or a later one, or both are gone.
  void judge_store(const Store& store, const std::string& what) {
    for (const auto& [number, time] : acknowledged_) {
      const auto newest = store.newest(key(number));
      if (newest && newest->timestamp.time >= time) continue;
      const bool may_be_gone = std::ranges::any_of(asked_, [&, number = number, time = time](const auto& each) {
        return each.first >= time && each.second.key == number && each.second.erases;
      });
      if (newest || !may_be_gone) fail("what was acknowledged is not " + what);
    }
  }
  void judge(unsigned seat) {
    const auto& other = processes_[1 - seat];
    if (other != nullptr && other->server.serves()) fail("two servers serve");
    judge_store(processes_[seat]->server.store(), "at the server that serves");
  }
  /// Where both copies are whole each has all that was acknowledged.
  void look_at_the_standbys_disk() {
    for (unsigned seat = 0; seat < 2; ++seat) {
      const auto& standby = processes_[seat];
      const auto& primary = processes_[1 - seat];
      if (standby == nullptr || primary == nullptr || !standby->server.is_full_standby()) continue;
      ++met_.looks_at_disks;
      const fs::path copy = directory(seat).string() + ".copy";
      copy_directory(directory(seat), copy);
      {
        StoreUnderTest memory({.bytes = kStoreBytes});
        DurableCopy disk({.directory = copy, .sync = SyncPolicy::always}, kPartition, seat);
        (void)disk.recover(memory.store());
        judge_store(memory.store(), "on the standby's disk");
      }
      fs::remove_all(copy);
    }
  }
  void finish() {
    is_ending_ = true;
    for (int round = 0; round < kMaxStepsToTheEnd && !violation_ && !is_left_; ++round) {
      for (unsigned seat = 0; seat < 2; ++seat) {
        clock_.pass(std::chrono::milliseconds(1));
        if (processes_[seat] == nullptr) start(seat, false);
        step(seat);
      }
      succeed();
      for (unsigned seat = 0; seat < 2; ++seat) {
        const auto& other = processes_[1 - seat];
        if (processes_[seat] == nullptr || !processes_[seat]->server.serves() || other == nullptr) continue;
        judge(seat);
        if (other->server.is_full_standby()) return look_at_the_standbys_disk();
      }
    }
    if (!has_lost_disk_) fail("no server serves, or it has no standby");
  }
  void fail(const std::string& what) {
    if (!violation_) violation_ = what;
  }

  [[nodiscard]] bool one_in(std::uint64_t many) { return dice_() % many == 0; }
  [[nodiscard]] fs::path directory(unsigned seat) const { return folder_.path() / std::to_string(seat); }

  struct Asked {
    std::size_t key;
    bool erases;
  };

  farside::test::TemporaryDirectory folder_;
  std::mt19937_64 dice_;
  const ReplicaRules rules_;
  Met& met_;
  const bool may_lose_disk_;
  const std::unique_ptr<Fabric> host_ = make_host_fabric({.mode = FabricMode::direct});
  FabricWithClock clock_{*host_};
  std::uint64_t last_id_ = 0;
  std::array<std::unique_ptr<Process>, 2> processes_;
  std::vector<unsigned> steps_under_way_;  ///< by seat: a second one while the first sleeps
  std::vector<std::uint64_t> left_;        ///< processes that their primary has dropped
  bool is_new_ = true;
  bool is_ending_ = false;
  bool has_lost_disk_ = false;
  bool is_left_ = false;  ///< to the operator
  std::uint64_t time_ = 0;
  std::map<std::uint64_t, Asked> asked_;               // by time
  std::uint64_t under_way_ = 0;                        // that time; 0: none
  std::map<std::size_t, std::uint64_t> acknowledged_;  // by key, the last one's time
  std::optional<std::string> violation_;
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kSeeds = 5;
#else
constexpr std::uint64_t kSeeds = 200;
#endif

constexpr std::uint64_t kSeedsForRules = 400;

std::optional<std::string> violation(std::uint64_t seeds, Met& met, const ReplicaRules& rules = {}) {
  const farside::test::OnAQuickDisk on_a_quick_disk;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    if (const auto found = CopiesRun(seed, rules, met).run()) return "seed " + std::to_string(seed) + ": " + *found;
  }
  return std::nullopt;
}

TEST(KvCopiesCrashes, LoseNothingThatWasAcknowledged) {
  Met met;
  const int seeds = static_cast<int>(farside::test::reduced(kSeeds));
  EXPECT_EQ(violation(static_cast<std::uint64_t>(seeds), met), std::nullopt);
  EXPECT_GE(met.acknowledged, 50 * seeds);
  EXPECT_GE(met.promoted, seeds);
  EXPECT_GE(met.from_disk, seeds);
  EXPECT_GE(met.looks_at_disks, seeds);
  RecordProperty("left_to_the_operator", met.left_to_the_operator);
}

bool is_caught(const ReplicaRules& rules) {
  Met met;
  const auto found = violation(kSeedsForRules, met, rules);
  testing::Test::RecordProperty("found", found.value_or("nothing"));
  return found.has_value();
}

TEST(KvCopiesCrashesRules, CatchAStandbyThatTakesWhatItsDiskHasNot) {
  EXPECT_TRUE(is_caught({.keeps_before_taking = false}));
}
TEST(KvCopiesCrashesRules, CatchAPrimaryThatDoesNotAwaitTheStandbysDisk) {
  EXPECT_TRUE(is_caught({.awaits_taking = false}));
}
TEST(KvCopiesCrashesRules, CatchAStandbyThatServesBeforeItsDiskSaysSo) {
  EXPECT_TRUE(is_caught({.claims_before_serving = false}));
}
TEST(KvCopiesCrashesRules, CatchAPrimaryWhoseDiskDoesNotSayThatItIsFollowed) {
  EXPECT_TRUE(is_caught({.disowns_before_teaching = false}));
}

}  // namespace
}  // namespace farside::kv::test
