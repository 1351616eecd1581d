// Gets that have their data, while a server of a partition whose fate they would look into is lost or stands still:
// kv_homed_world.h.
#include <array>
#include <string_view>

#include "kv/client/atomic_reader.h"
#include "tests/sim/kv/kv_homed_world.h"

namespace farside::sim::homed {
namespace {

/// Finds every key in a version that is new each time, of a transaction that may be uncommitted at another server.
class NewTransactions final : public kv::VersionSource {
 public:
  Outcome find(std::span<kv::Search* const> searches, std::span<const kv::Timestamp> candidates, Deadline) override {
    for (kv::Search* search : searches) {
      if (candidates.empty()) ++last_;
      kv::RecordHead head{};
      head.timestamp = {last_, 9};
      head.siblings_kind = kv::SiblingsKind::list;
      search->set_found({head, std::as_bytes(std::span(kSiblings)), search->key, "value"});
    }
    return Outcome::done;
  }

 private:
  static inline const std::array<kv::KeyId, 2> kSiblings{kv::key_id("read"), kv::key_id("not read")};
  std::uint64_t last_ = 0;
};

/// So many gets, each of which has its data, while the session cannot find out what became of the rest.
int failed_gets(const Side& side, int gets) {
  NewTransactions source;
  const kv::Caller caller{.session = 1};
  kv::AtomicReader reader(side.fabric, source, side.requests, caller, 2s);
  constexpr std::string_view kKey = "read";
  int failed = 0;
  for (int i = 0; i < gets; ++i) {
    if (!reader.get_all({&kKey, 1}, side.fabric.in(10s)).done()) ++failed;
  }
  return failed;
}

constexpr int kMoreThanRemembered = 5000;

// Nothing can be missing of a partition that the session never reads again.
TEST(KvHomedGets, KeepNoGetWaitingForAPartitionThatIsLost) {
  for (const bool has_moved : {false, true}) {
    PartitionRun({.has_moved = has_moved}, [&](Side& side) {
      side.lose(kPrimary);
      side.lose(kStandby);
      side.standby_is = Homes::StandbyIs::away;
      EXPECT_LT(side.took([&] { EXPECT_EQ(failed_gets(side, kMoreThanRemembered), 0); }), 100ms);
    });
  }
}

// Its standby may serve some day.
TEST(KvHomedGets, RememberWhatMayBeMissingOfAPrimaryThatIsLost) {
  PartitionRun({}, [&](Side& side) {
    side.lose(kPrimary);
    EXPECT_GT(failed_gets(side, kMoreThanRemembered), 0);
  });
}

TEST(KvHomedGets, KeepNoGetWaitingForAPrimaryThatStandsStill) {
  PartitionRun({}, [&](Side& side) {
    side.servers[kPrimary].stands_still = true;
    EXPECT_LT(side.took([&] { EXPECT_EQ(failed_gets(side, 1000), 0); }), 100ms);
  });
}

}  // namespace
}  // namespace farside::sim::homed
