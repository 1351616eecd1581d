// Two processes that may coordinate a team, and its members: which of them does, and what the members notice of that.
#include "team/succession/candidacy.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "farside/base/error.h"

#include "authority/office_store.h"
#include "net/runtime_dir.h"
#include "net/socket.h"
#include "team/decision_log.h"
#include "tests/authority/stand_in_store.h"
#include "tests/team/coordinator_fixture.h"

namespace farside::team {
namespace {

using test::Member;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

class Candidates : public testing::Test {
 protected:
  void SetUp() override {
    records_.is_faulty = false;
    first_.emplace(settings(first_address_), secret_);
    second_.emplace(settings(second_address_), secret_);
    meet_at(first_address_);
    zero_ = std::make_unique<Member>("file:" + meeting_.string(), secret_, 0);
    one_ = std::make_unique<Member>("file:" + meeting_.string(), secret_, 1);
    test::expect_exchange(*zero_, *one_);
  }
  static std::string free_address() { return net::bound_address(net::listen_on("127.0.0.1:0"), "127.0.0.1:0"); }
  Candidacy::Settings settings(const std::string& address, const std::string& terms = "terms") {
    return {.open_records = [this] { return std::make_unique<test::StandInStore>(records_); },
            .pool = "pool",
            .address = address,
            .owner = address,
            .size = 2,
            .terms = terms,
            .admission = {},
            .silence = kMinSilence};
  }
  void meet_at(const std::string& address) const { std::ofstream(meeting_) << address << '\n'; }
  std::string holder() {
    test::StandInStore store(records_);
    const auto view = authority::Office(store, authority::OfficeKeys("pool")).look();
    return view && view->holder ? view->holder->address : "";
  }
  std::map<std::string, std::string> records() {
    const std::lock_guard lock(records_.mutex);
    return records_.records();
  }
  void put_back(const std::map<std::string, std::string>& snapshot) {
    const std::lock_guard lock(records_.mutex);
    records_.put_back(snapshot);
  }
  /// As the present log has it.
  TeamState state() {
    test::StandInStore store(records_);
    const authority::OfficeKeys keys("pool");
    const auto view = authority::Office(store, keys).look();
    authority::OfficeStore log(std::make_unique<test::StandInStore>(records_), keys, view->holder.value(),
                               [](auto) { return false; });
    return read_team(log.read()).team.state();
  }
  void expect_both(bool without_coordinator) {
    EXPECT_TRUE(test::eventually([&] {
      return zero_->is_without_coordinator() == without_coordinator &&
             one_->is_without_coordinator() == without_coordinator;
    }));
  }
  void expect_all_to_be_well() {
    expect_both(false);
    EXPECT_THAT(zero_->losses(), IsEmpty());
    EXPECT_THAT(one_->losses(), IsEmpty());
    test::expect_exchange(*zero_, *one_);
  }

  net::JobDir dir_;
  net::Secret secret_ = net::Secret::create(dir_.path() / "secret");
  std::filesystem::path meeting_ = dir_.path() / "meeting";
  test::StandInRecords records_{1};
  const std::string first_address_ = free_address();
  const std::string second_address_ = free_address();
  std::optional<Candidacy> first_;
  std::optional<Candidacy> second_;
  std::unique_ptr<Member> zero_;
  std::unique_ptr<Member> one_;
};

TEST_F(Candidates, TakeOverFromOneThatWasKilled) {
  EXPECT_EQ(holder(), first_address_);
  first_.reset();
  EXPECT_TRUE(test::eventually([&] { return holder() == second_address_; }));
  meet_at(second_address_);
  expect_all_to_be_well();
}

TEST_F(Candidates, TakeOverAtOnceFromOneThatLeaves) {
  first_->leave({});
  EXPECT_TRUE(test::eventually([&] { return holder() == second_address_; }));
  meet_at(second_address_);
  expect_all_to_be_well();
}

// Its process was started again before any other took over.
TEST_F(Candidates, GoOnWhereTheirPredecessorsWere) {
  first_.reset();
  first_.emplace(settings(first_address_), secret_);
  EXPECT_EQ(holder(), first_address_);
  expect_all_to_be_well();
}

TEST_F(Candidates, CoordinateNoMoreWhenTheAuthorityDoesNotAnswer) {
  records_.is_away = true;
  expect_both(true);
  records_.is_away = false;
  EXPECT_TRUE(test::eventually([&] {
    meet_at(holder());
    return !zero_->is_without_coordinator() && !one_->is_without_coordinator();
  }));
  expect_all_to_be_well();
}

// A decision that waits for the authority ends with that.
TEST_F(Candidates, EndWhileADecisionWaits) {
  records_.is_away = true;
  (*zero_)->evict(1, 0);
  expect_both(true);
  first_.reset();
  second_.reset();
  records_.is_away = false;
  first_.emplace(settings(first_address_), secret_);
  EXPECT_TRUE(test::eventually([&] { return zero_->losses() == std::map<Rank, Loss>{{1, Loss::evicted}}; }));
}

// Another process coordinated since, and what it decided is not known any more.
TEST_F(Candidates, TakeNoMemberForDeadByRecordsThatWerePutBack) {
  const std::map<std::string, std::string> snapshot = records();
  first_->leave({});
  EXPECT_TRUE(test::eventually([&] { return holder() == second_address_; }));
  first_.reset();
  first_.emplace(settings(first_address_), secret_);
  second_.reset();
  put_back(snapshot);
  EXPECT_TRUE(test::eventually([&] { return holder() == first_address_ && state().generation == 1; }));
  expect_all_to_be_well();
  EXPECT_TRUE(test::eventually([&] { return !state().awaits_all; }));
}

TEST_F(Candidates, WriteAnewWhatASnapshotLacks) {
  const std::map<std::string, std::string> snapshot = records();
  test::expect_exchange(*zero_, *one_);
  put_back(snapshot);
  EXPECT_TRUE(test::eventually([&] { return state().exchanges.size() == 2; }));
  expect_all_to_be_well();
}

TEST_F(Candidates, LeaveNothingBehindWhenNoMemberIsLeft) {
  second_->leave({});
  (*zero_)->leave();
  zero_.reset();
  one_.reset();
  first_->leave({0, 1});
  EXPECT_EQ(records_.records().size(), 1U);  // the holder's, who has resigned
}

TEST_F(Candidates, RefuseAPoolWithOtherOptions) {
  EXPECT_THAT([&] { Candidacy(settings(free_address(), "others"), secret_); },
              ThrowsMessage<Error>(HasSubstr("it is that of a pool with other options")));
  EXPECT_EQ(holder(), first_address_);
}

TEST_F(Candidates, NeedAnAddressOfTheirOwn) {
  EXPECT_THROW(Candidacy(settings(first_address_), secret_), Error);
  EXPECT_EQ(holder(), first_address_);
}

}  // namespace
}  // namespace farside::team
