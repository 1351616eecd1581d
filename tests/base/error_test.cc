#include "farside/base/error.h"

#include <cerrno>

#include <gtest/gtest.h>

namespace farside {
namespace {

TEST(Error, SaysWhatWasTriedOnWhatWhyAndWhatToDo) {
  const Error error({"open", "/x", "no such file", "create it"});
  EXPECT_STREQ(error.what(), "cannot open /x: no such file; create it");
}

TEST(Error, TakesTheReasonFromErrno) {
  errno = ENOENT;
  EXPECT_STREQ(errno_error("open", "/x").what(), "cannot open /x: No such file or directory");
}

}  // namespace
}  // namespace farside
