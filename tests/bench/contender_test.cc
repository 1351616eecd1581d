// Programs that are measured: they answer, and nothing is left of them.
#include "bench/harness/contender.h"

#include <csignal>
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "farside/base/error.h"

namespace farside::bench {
namespace {

Contender::Program shell(const std::string& script) { return {{"sh", "-c", script}}; }

TEST(Contender, AnswersQuestionsInTurn) {
  Contender echo("echo",
                 {{"sh", "-c", "echo ready; while read line; do echo \"$WORD $line\"; done"}, {{"WORD", "you said"}}});
  EXPECT_EQ(echo.ask("one"), "you said one");
  EXPECT_EQ(echo.ask("two"), "you said two");
}

// A program that is missing or falls over is an Error that names it, at the start and later.
TEST(Contender, ReportsProgramsThatEnd) {
  EXPECT_THROW(Contender("missing", {{"/nonexistent/program"}}), Error);
  EXPECT_THROW(Contender("wrong", shell("echo hello")), Error);
  Contender mute("mute", shell("echo ready; read line"));
  try {
    static_cast<void>(mute.ask("anything"));
    FAIL() << "the contender ended without an answer";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("mute"));
  }
}

// A contender that does not end by itself is ended, with the processes it started.
TEST(Contender, LeavesNothingBehind) {
  pid_t grandchild = 0;
  {
    Contender stubborn("stubborn", shell("sleep 1000 & echo ready; read line; echo $!; wait"));
    grandchild = std::stoi(stubborn.ask("which process did you start?"));
    ASSERT_EQ(::kill(grandchild, 0), 0);
  }
  while (::kill(grandchild, 0) == 0) ::usleep(1000);  // until init has collected it; CTest's time-out is the deadline
}

}  // namespace
}  // namespace farside::bench
