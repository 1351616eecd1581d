// The coordinator's decisions: what follows from them, and what is left of them in a file.
#include "team/decision_log.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "farside/base/error.h"

#include "authority/file_store.h"
#include "net/runtime_dir.h"
#include "team/membership.h"

namespace farside::team {
namespace {

using authority::Kept;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr Rank kSize = 2;
constexpr const char* kTerms = "--nodes=2";

TeamState fresh(std::uint64_t team = 7) {
  return {.team = team, .seats = std::vector<SeatState>(kSize), .silent_beats = 10};
}

// What a coordinator decides while a team forms, loses rank 1, and gets it back as its third process.
std::vector<Decision> a_history() {
  return {Admitted{0}, Admitted{1}, Exchanged{{"zero", "one"}},  Exchanged{{"zero'", "one'"}}, Lost{1, Loss::evicted},
          Admitted{1}, Admitted{1}, Returned{1, {"two", "two'"}}};
}

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

class DecisionLogTest : public testing::Test {
 protected:
  [[nodiscard]] std::unique_ptr<authority::DecisionStore> file() const {
    return std::make_unique<authority::FileStore>(path_);
  }
  [[nodiscard]] static Membership begun() {
    Membership team(kSize);
    team.apply(fresh());
    return team;
  }
  /// The state that a coordinator finds which is started again.
  [[nodiscard]] Membership recovered() const {
    Membership team(kSize);
    team.apply(fresh(8));
    const DecisionLog log(file(), kTerms, team);
    return team;
  }
  /// A log of all decisions; returns the size of the file after each.
  std::vector<std::size_t> write_history() {
    Membership team = begun();
    DecisionLog log(file(), kTerms, team);
    std::vector<std::size_t> sizes;
    for (const Decision& decision : a_history()) {
      EXPECT_EQ(log.append(decision), Kept::kept);
      team.apply(decision);
      sizes.push_back(std::filesystem::file_size(path_));
    }
    return sizes;
  }

  net::JobDir dir_;
  std::filesystem::path path_ = dir_.path() / "decisions";
};

TEST_F(DecisionLogTest, HasTheStateOfTheCoordinatorBefore) {
  write_history();
  for (int restart = 0; restart < 3; ++restart) {  // each writes the file anew
    const Membership team = recovered();
    EXPECT_EQ(team.state().team, 7u);
    EXPECT_EQ(team.state().epoch, 2u);
    EXPECT_THAT(team.state().exchanges, ElementsAre(ElementsAre("zero", "two"), ElementsAre("zero'", "two'")));
    EXPECT_TRUE(team.is_present(0));
    EXPECT_TRUE(team.is_present(1));
    EXPECT_EQ(team.seat(1).incarnation, 2);
    EXPECT_EQ(team.seat(1).next_incarnation, 3);
    EXPECT_EQ(team.state().silent_beats, 10u);
  }
}

TEST_F(DecisionLogTest, KeepsTheSilenceTimeThatMembersMayHave) {
  {
    Membership team = begun();
    DecisionLog log(file(), kTerms, team);
    ASSERT_EQ(log.append(SilenceChosen{40}), Kept::kept);
  }
  for (int restart = 0; restart < 2; ++restart) EXPECT_EQ(recovered().state().silent_beats, 40u);
}

// Also what the members may have missed: that the coordinator was killed while it told them.
TEST_F(DecisionLogTest, KeepsTheChangesOfTheLastEpochs) {
  write_history();
  const auto before = begun();
  EXPECT_EQ(before.notices_after(1), std::nullopt);
  for (int restart = 0; restart < 2; ++restart) {
    const Membership team = recovered();
    const auto all = team.notices_after(0);
    ASSERT_TRUE(all.has_value());
    ASSERT_EQ(all->size(), 2u);
    EXPECT_EQ(all->front().kind, net::FrameKind::lost);
    EXPECT_EQ(all->back().kind, net::FrameKind::returned);
    EXPECT_THAT(all->back().fields, HasSubstr("two'"));
    EXPECT_EQ(team.notices_after(1)->size(), 1u);
    EXPECT_EQ(team.notices_after(2)->size(), 0u);
    EXPECT_EQ(team.notices_after(3), std::nullopt);  // this coordinator has not decided it
  }
}

// At each byte of the last decision: it is either there, or was never told to a process.
TEST_F(DecisionLogTest, LeavesOutADecisionThatWasCutShort) {
  const std::vector<std::size_t> sizes = write_history();
  const std::string whole = read(path_);
  const std::size_t before = sizes[sizes.size() - 2];
  for (std::size_t left = before; left < whole.size(); ++left) {
    write(path_, whole.substr(0, left));
    EXPECT_EQ(recovered().state().epoch, 1u) << left;
    write(path_, whole.substr(0, left) + std::string(whole.size() - left, '\0'));  // the file grew first
    EXPECT_EQ(recovered().state().epoch, 1u) << left;
  }
}

TEST_F(DecisionLogTest, RefusesAFileThatIsDamagedBeforeItsLastDecision) {
  const std::vector<std::size_t> sizes = write_history();
  const std::string whole = read(path_);
  for (std::size_t at = 0; at < sizes[sizes.size() - 2]; ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x40);
    write(path_, damaged);
    EXPECT_THROW((void)recovered(), Error) << at;
  }
}

// A file has its name only when its head and the state are on the disk.
TEST_F(DecisionLogTest, RefusesAFileWithoutItsBeginning) {
  {
    Membership team = begun();
    const DecisionLog log(file(), kTerms, team);
  }
  const std::string whole = read(path_);
  for (std::size_t left = 0; left < whole.size(); ++left) {
    write(path_, whole.substr(0, left));
    EXPECT_THROW((void)recovered(), Error) << left;
  }
}

TEST_F(DecisionLogTest, RefusesATeamWithOtherOptions) {
  write_history();
  Membership team = begun();
  EXPECT_THAT([&] { DecisionLog(file(), "--nodes=3", team); }, ThrowsMessage<Error>(HasSubstr("other options")));
  EXPECT_EQ(recovered().state().epoch, 2u);  // it is as it was
}

TEST_F(DecisionLogTest, IsGoneWithTheTeam) {
  write_history();
  Membership team = begun();
  EXPECT_TRUE(DecisionLog(file(), kTerms, team).remove());
  EXPECT_EQ(recovered().state().team, 8u);
}

// A rank that fails again and again before it is back changes the state, and does not add to it.
TEST_F(DecisionLogTest, StaysSmallHoweverMuchIsDecided) {
  constexpr std::uint64_t kLarge = 1024;
  Membership team = begun();
  DecisionLog log(std::make_unique<authority::FileStore>(path_, kLarge), kTerms, team);
  std::vector<Decision> decisions = a_history();
  decisions.emplace_back(Lost{1, Loss::died});
  decisions.insert(decisions.end(), 500, Admitted{1});
  for (const Decision& decision : decisions) {
    ASSERT_EQ(log.append(decision), Kept::kept);
    team.apply(decision);
    ASSERT_LT(std::filesystem::file_size(path_), 4 * kLarge);
  }
  EXPECT_EQ(recovered().seat(1).next_incarnation, 503);
}

TEST(Membership, FollowsNothingThatDoesNotFollow) {
  Membership team(kSize);
  team.apply(fresh());
  for (const Decision& impossible : std::vector<Decision>{
           Lost{0, Loss::died}, Returned{0, {}}, Exchanged{{"one alone"}}, TeamState{.team = 1, .seats = {}}}) {
    EXPECT_THROW(team.apply(impossible), Error);
  }
  for (const std::string& bytes : {std::string(), std::string("\7"), std::string("\1\2\0\0\0", 5),
                                   encode_decision(SilenceChosen{3}), encode_decision(SilenceChosen{41})})
    EXPECT_THROW((void)decode_decision(bytes, kSize), Error);
}

}  // namespace
}  // namespace farside::team
