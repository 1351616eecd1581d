// What a profile makes of counts, and of files that people wrote.
#include "far/daemon/profile.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "farside/base/error.h"

namespace farside::far {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::uint64_t kPages = 1000;
constexpr std::uint64_t kBudget = 4 * kPages * kPageBytes;

struct Counts {
  std::uint64_t fetched, used_ahead, written, stored;
};
AllocationUse used(const Counts& counts, Hint before = Hint::none, std::uint64_t pages = kPages) {
  return {.bytes = pages * kPageBytes,
          .times = 1,
          .pages = {counts.fetched, counts.used_ahead, counts.written, counts.stored},
          .hint = before};
}
Hint hint_for(const AllocationUse& use) { return deduce_hints(std::vector{use}, kBudget).front(); }

TEST(FarProfile, WhatSeldomComesBackTellsNothing) {
  EXPECT_EQ(hint_for(used({0, 0, 0, kPages})), Hint::none);
  EXPECT_EQ(hint_for(used({kPages / 4 - 1, 0, 0, kPages})), Hint::none);
}

TEST(FarProfile, WhatIsReadOverAndOverIsReadMostly) {
  EXPECT_EQ(hint_for(used({10 * kPages, 0, 0, kPages})), Hint::read_mostly);
  EXPECT_EQ(hint_for(used({10 * kPages, 10 * kPages, kPages, kPages})), Hint::read_mostly);
}

TEST(FarProfile, WhatIsWalkedThroughOnceIsSequential) {
  EXPECT_EQ(hint_for(used({kPages, kPages / 2, 0, kPages})), Hint::sequential);
  EXPECT_EQ(hint_for(used({kPages, kPages / 2 - 1, 0, kPages})), Hint::read_mostly);  // in some other order
}

TEST(FarProfile, WhatIsWrittenWhenItComesBackIsUpdated) {
  EXPECT_EQ(hint_for(used({8 * kPages, 0, 2 * kPages, 2 * kPages})), Hint::updated);
  EXPECT_EQ(hint_for(used({8 * kPages, 0, 2 * kPages - 1, 2 * kPages})), Hint::none);  // neither this nor that
}

// Three quarters of the budget are three of these; those stay that had it, and of the others those that gain most.
TEST(FarProfile, NoMoreIsUpdatedThanStays) {
  const auto with = [](std::uint64_t writes, Hint before = Hint::none) {
    return used({writes, 0, writes, writes}, before);
  };
  EXPECT_THAT(deduce_hints(std::vector{with(3000), with(5000), with(0, Hint::updated), with(4000)}, kBudget),
              ElementsAre(Hint::none, Hint::updated, Hint::updated, Hint::updated));
  EXPECT_EQ(hint_for(used({9000, 0, 9000, 9000}, Hint::none, 4 * kPages)), Hint::none);
}

TEST(FarProfile, EachThatHasANameTakesRoom) {
  AllocationUse use = used({9000, 0, 9000, 9000});
  for (const std::uint64_t times : {3, 4}) {
    use.times = times;
    EXPECT_EQ(hint_for(use), times == 3 ? Hint::updated : Hint::none);
  }
}

// It has no size, so it neither takes room nor is in the way of the order among the others.
TEST(FarProfile, ANameThatNothingHadChangesNothing) {
  const auto kept = [](std::uint64_t writes) { return used({writes, 0, writes, writes}, Hint::updated); };
  const AllocationUse unknown{.hint = Hint::updated};
  EXPECT_THAT(deduce_hints(std::vector{kept(3000), unknown, kept(5000), kept(4000), kept(6000)}, kBudget),
              ElementsAre(Hint::none, Hint::updated, Hint::updated, Hint::updated, Hint::updated));
}

// A second run, with hints, sees little of what they keep here.
TEST(FarProfile, AHintThatWorksStays) {
  for (const Hint hint : {Hint::updated, Hint::sequential, Hint::read_mostly}) {
    EXPECT_EQ(hint_for(used({0, 0, 0, 0}, hint)), hint);
  }
  EXPECT_EQ(hint_for(used({10 * kPages, 0, 0, 0}, Hint::updated)), Hint::read_mostly);
  EXPECT_EQ(hint_for(used({9000, 0, 9000, 0}, Hint::pinned)), Hint::pinned);
}

class ProfileFile : public testing::Test {
 protected:
  ~ProfileFile() override { std::filesystem::remove(path); }

  std::string refusal_of(const std::string& text) const {
    std::ofstream(path) << text;
    Profile profile(kBudget);
    try {
      profile.read_hints(path);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "none";
  }

  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("far_profile." + std::to_string(::getpid()));
};

TEST_F(ProfileFile, IsReadAsItWasWritten) {
  Profile first(kBudget);
  Profile::Allocation& hot = first.allocated("a: b+0x1 #1", "main", kPages * kPageBytes);
  hot.note(PageEvent::fetched, 5 * kPages);
  hot.note(PageEvent::written, 5 * kPages);
  (void)first.allocated("a: \xff", "", kPageBytes);  // a file may be called anything
  first.write(path);

  Profile second(kBudget);
  second.read_hints(path);
  EXPECT_EQ(second.allocated("a: b+0x1 #1", "main", kPages * kPageBytes).hint(), Hint::updated);
  EXPECT_EQ(second.allocated("a: b+0x1 #2", "main", kPages * kPageBytes).hint(), Hint::none);
  const Profile::HintsGiven given = second.hints_given();
  EXPECT_EQ(given.names, 2U);
  EXPECT_EQ(given.unknown, 1U);
  EXPECT_EQ(given.allocations, 1U);
}

TEST_F(ProfileFile, MayBeWrittenByAPerson) {
  EXPECT_EQ(refusal_of(R"({"allocations": [{"name": "a: b", "hint": "pinned", "why": "I said so"}]})"), "none");
  EXPECT_EQ(refusal_of(R"({"allocations": []})"), "none");
}

TEST_F(ProfileFile, SaysWhereItIsWrong) {
  EXPECT_THAT(refusal_of(""), HasSubstr("line 1"));
  EXPECT_THAT(refusal_of("{\n  \"allocations\": [\n    {\"name\": }\n]}"), HasSubstr("line 3"));
  EXPECT_THAT(refusal_of("[]"), HasSubstr("it has no list \"allocations\""));
  EXPECT_THAT(refusal_of(R"({"allocations": 5})"), HasSubstr("it has no list \"allocations\""));
  EXPECT_THAT(refusal_of(R"({"allocations": ["a"]})"), HasSubstr("allocations[0].name"));
  EXPECT_THAT(refusal_of(R"({"allocations": [{"name": "a"}]})"), HasSubstr("allocations[0].hint"));
  EXPECT_THAT(refusal_of(R"({"allocations": [{"name": "a", "hint": "none"}, {"name": 7, "hint": "none"}]})"),
              HasSubstr("allocations[1].name"));
  EXPECT_THAT(refusal_of(R"({"allocations": [{"name": "a", "hint": "often"}]})"),
              HasSubstr(R"(allocations[0].hint, of "a": there is no hint "often")"));
  EXPECT_THAT(refusal_of(R"({"allocations": [{"name": "a", "hint": "done"}]})"),
              HasSubstr("there is no hint \"done\""));
  EXPECT_THAT(refusal_of(R"({"allocations": [{"name": "a", "hint": "pinned"}, {"name": "a", "hint": "none"}]})"),
              HasSubstr(R"(allocations[1].name: "a" was named before)"));
  std::filesystem::remove(path);
  Profile profile(kBudget);
  EXPECT_THROW(profile.read_hints(path), UsageError);
}

TEST_F(ProfileFile, IsNamedWhenItIsAFolder) {
  Profile profile(kBudget);
  try {
    profile.read_hints(path.parent_path());
    FAIL() << "a folder was read";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr(path.parent_path().string()));
  }
}

TEST_F(ProfileFile, IsKnownToBeWritableBeforeItIsWritten) {
  std::ofstream(path) << "kept";
  expect_writable(path);
  EXPECT_EQ(std::filesystem::file_size(path), 4U);
  EXPECT_THROW(expect_writable("/no/such/folder/profile"), Error);
}

}  // namespace
}  // namespace farside::far
