// What a program is linked with is read from its file, whatever the file has.
#include "team/linked_libraries.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace farside::test {
namespace {

using testing::Contains;
using testing::EndsWith;
using testing::IsEmpty;

TEST(LinkedLibraries, AreThoseThatTheFileNames) {
  EXPECT_THAT(team::linked_libraries("/proc/self/exe"), Contains("libc.so.6"));
}

TEST(LinkedLibraries, OfWhatIsNoProgramAreNone) {
  EXPECT_THAT(team::linked_libraries("/proc/self/cmdline"), IsEmpty());
  EXPECT_THAT(team::linked_libraries("/dev/null"), IsEmpty());
  EXPECT_THAT(team::linked_libraries("/"), IsEmpty());
  EXPECT_THAT(team::linked_libraries("/there/is/none"), IsEmpty());
}

// Cut short anywhere in its tables, and with each of their bytes set.
TEST(LinkedLibraries, OfABrokenFileAreNoneOrSome) {
  std::string bytes(4096, '\0');
  std::ifstream("/proc/self/exe", std::ios::binary).read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  const std::string path = testing::TempDir() + "broken_program." + std::to_string(::getpid());
  const auto look = [&](const std::string& content) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
    (void)team::linked_libraries(path);
  };
  for (std::size_t length = 0; length < 1024; length += 7) look(bytes.substr(0, length));
  for (std::size_t at = 0; at < 1024; at += 3) {
    std::string changed = bytes;
    changed[at] = '\xff';
    look(changed);
  }
  std::filesystem::remove(path);
}

TEST(FindProgram, LooksWhereExecvpDoes) {
  EXPECT_THAT(team::find_program("sh"), EndsWith("/sh"));
  EXPECT_EQ(team::find_program("./sh"), "./sh");
  EXPECT_THAT(team::find_program("there-is-no-such-program"), IsEmpty());
}

}  // namespace
}  // namespace farside::test
