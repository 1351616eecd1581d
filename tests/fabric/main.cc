// The main program of the suites that run over every fabric.
#include <gtest/gtest.h>

#include "tests/support/hosts.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  testing::AddGlobalTestEnvironment(new farside::test::Hosts);  // GoogleTest owns it
  return RUN_ALL_TESTS();
}
