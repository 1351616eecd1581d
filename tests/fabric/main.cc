// The main program of the suites that run over every fabric. FARSIDE_TEST_OVER names one; without it the variables of
// farside and UCX count. It is one variable because gtest_discover_tests hands on no lists.
#include <array>
#include <cstdlib>
#include <iostream>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/hosts.h"

namespace {

using Variables = std::vector<std::pair<const char*, const char*>>;

struct Way {
  std::string_view name;
  Variables variables;
};

const std::array<Way, 4> kWays{{
    {"direct", {{"FARSIDE_FABRIC", "direct"}}},
    {"ucx", {{"FARSIDE_FABRIC", "ucx"}}},
    {"ucx_tcp", {{"FARSIDE_FABRIC", "ucx"}, {"UCX_TLS", "tcp"}, {"UCX_NET_DEVICES", "lo"}}},
    {"hosts", {{"FARSIDE_TEST_HOSTS", "2"}, {"UCX_TLS", "tcp"}, {"UCX_NET_DEVICES", farside::test::Hosts::kDevice}}},
}};

bool choose(std::string_view wanted) {
  for (const Way& way : kWays) {
    if (way.name != wanted) continue;
    for (const auto& [variable, value] : way.variables) ::setenv(variable, value, 1);
    return true;
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const char* const over = std::getenv("FARSIDE_TEST_OVER");
  if (over != nullptr && !choose(over)) {
    std::cerr << "FARSIDE_TEST_OVER=" << over << ": there is no such fabric\n";
    return 1;
  }
  testing::AddGlobalTestEnvironment(new farside::test::Hosts);  // GoogleTest owns it
  return RUN_ALL_TESTS();
}
