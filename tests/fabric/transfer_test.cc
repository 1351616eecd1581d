// Conformance: what is transferred arrives, all of it and nothing else, and what is out of range is never posted.
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "farside/base/error.h"
#include "farside/base/units.h"

#include "tests/support/mesh.h"
#include "tests/support/reduced.h"

namespace farside::test {
namespace {

using testing::HasSubstr;

const std::uint64_t kLargest = reduced(std::uint64_t{64} << 20);
constexpr std::uint64_t kMargin = 64;

std::byte pattern(std::uint64_t i, unsigned salt) { return static_cast<std::byte>((i * 131 + salt) >> 3); }

/// `bytes` of the pattern, at an odd place in a buffer whose other bytes are zero.
std::vector<std::byte> patterned(std::uint64_t bytes, std::uint64_t shift, unsigned salt) {
  std::vector<std::byte> buffer(kMargin + bytes + kMargin);
  for (std::uint64_t i = 0; i < bytes; ++i) buffer[shift + i] = pattern(i, salt);
  return buffer;
}

// Sizes around every boundary that a copy, a page or a transport may care about, at alignments that suit none.
TEST(Transfer, ArrivesWholeAtEverySizeAndAlignment) {
  Fleet fleet(2, [](Member& me) {
    const Mesh mesh = make_mesh(me, kLargest + 2 * kMargin);
    if (me.index() == 0) {
      unsigned salt = 0;
      for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{7}, std::uint64_t{8},
                                        std::uint64_t{9}, std::uint64_t{63}, std::uint64_t{65}, std::uint64_t{4095},
                                        std::uint64_t{4097}, std::uint64_t{65537}, std::uint64_t{1048577}, kLargest}) {
        SCOPED_TRACE(format_bytes(bytes));
        ++salt;
        const std::uint64_t shift = 1 + salt % 7;
        std::vector<std::byte> sent = patterned(bytes, shift, salt);
        std::vector<std::byte> nothing(sent.size());
        const auto all = mesh.at(1).span(0, sent.size());
        const auto place = mesh.at(1).span(shift, bytes);
        ASSERT_EQ(mesh.channel->write(all, LocalSpan(nothing.data(), nothing.size()), mesh.deadline()), Outcome::done);
        ASSERT_EQ(mesh.channel->flush(1, mesh.deadline()), Outcome::done);
        ASSERT_EQ(mesh.channel->write(place, LocalSpan(sent.data() + shift, bytes), mesh.deadline()), Outcome::done);
        ASSERT_EQ(mesh.channel->flush(1, mesh.deadline()), Outcome::done);

        std::vector<std::byte> found(sent.size());
        ASSERT_EQ(mesh.channel->read(LocalSpan(found.data(), found.size()), all, mesh.deadline()), Outcome::done);
        EXPECT_TRUE(found == sent) << "with its surroundings";

        std::vector<std::byte> shifted(bytes + kMargin);
        ASSERT_EQ(mesh.channel->read(LocalSpan(shifted.data() + 3, bytes), place, mesh.deadline()), Outcome::done);
        EXPECT_TRUE(std::equal(shifted.begin() + 3, shifted.begin() + 3 + static_cast<std::ptrdiff_t>(bytes),
                               sent.begin() + static_cast<std::ptrdiff_t>(shift)))
            << "into another alignment";
      }
    }
    me.barrier();
  });
  fleet.expect_success();
}

// A span of an own region may be the local side, so that data goes from region to region without a copy between.
TEST(Transfer, GoesFromRegionToRegion) {
  Fleet fleet(2, [](Member& me) {
    const Mesh mesh = make_mesh(me, 8192);
    if (me.index() == 0) {
      const std::vector<std::byte> sent = patterned(5000, 0, 1);
      mesh.local->copy_in(11, sent);
      const auto bytes = sent.size();
      ASSERT_EQ(mesh.channel->write(mesh.at(1).span(77, bytes), mesh.local->span(11, bytes), mesh.deadline()),
                Outcome::done);
      ASSERT_EQ(mesh.channel->flush(1, mesh.deadline()), Outcome::done);
      ASSERT_EQ(mesh.channel->read(mesh.local->span(1003, bytes), mesh.at(1).span(77, bytes), mesh.deadline()),
                Outcome::done);
      std::vector<std::byte> found(bytes);
      mesh.local->copy_out(1003, found);
      EXPECT_TRUE(found == sent);
    }
    me.barrier();
  });
  fleet.expect_success();
}

template <class Access>
std::string refusal(Access access) {
  try {
    (void)access();
  } catch (const Error& error) {
    return error.what();
  }
  return "not refused";
}

// A place that is out of range cannot even be named, and the error says which region and which range it was.
TEST(Transfer, RefusesWhatIsOutOfRangeAndNamesIt) {
  constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();
  Fleet fleet(1, [](Member& me) {
    const Mesh mesh = make_mesh(me, 1000);
    const RemoteRegion& remote = mesh.at(0);
    EXPECT_THAT(
        refusal([&] { return remote.span(990, 11); }),
        testing::AllOf(HasSubstr("mesh 0 of peer 0"), HasSubstr("11 bytes at offset 990"), HasSubstr("1000 bytes")));
    EXPECT_THAT(refusal([&] { return remote.span(kHuge, 2); }), HasSubstr("mesh 0 of peer 0"));
    EXPECT_THAT(refusal([&] { return remote.span(2, kHuge); }), HasSubstr("mesh 0 of peer 0"));
    EXPECT_THAT(refusal([&] { return remote.word<AtomicWord>(1000); }), HasSubstr("8 bytes at offset 1000"));
    EXPECT_THAT(refusal([&] { return remote.word<ControlWord>(12); }), HasSubstr("8 bytes at offset 12"));
    EXPECT_THAT(refusal([&] { return mesh.local->span(0, 1001); }), HasSubstr("1001 bytes at offset 0"));
    EXPECT_THAT(refusal([&] { return mesh.local->word<ControlWord>(996); }), HasSubstr("8 bytes at offset 996"));
    EXPECT_EQ(remote.span(1000, 0).bytes, 0U) << "an empty range at the very end is in range";
  });
  fleet.expect_success();
}

// A buffer shorter than the range would be overrun, so the two must agree.
TEST(Transfer, RefusesABufferOfAnotherLength) {
  Fleet fleet(1, [](Member& me) {
    const Mesh mesh = make_mesh(me, 1000);
    std::uint64_t buffer = 0;
    EXPECT_THAT(refusal([&] { return mesh.channel->read(LocalSpan(buffer), mesh.at(0).span(0, 9), mesh.deadline()); }),
                HasSubstr("the local buffer has 8 bytes and the remote range 9"));
  });
  fleet.expect_success();
}

}  // namespace
}  // namespace farside::test
