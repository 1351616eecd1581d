// hosts.h — two "hosts" on one machine: network namespaces of their own, joined by a cable (veth).
//
// A program whose environment says FARSIDE_TEST_HOSTS=2 makes them before its first test and lets the members of a
// fleet enter them by turns. They are held by descriptors alone, so nothing is left whatever ends the program.
#pragma once

#include <array>

#include <gtest/gtest.h>

#include "farside/base/fd.h"

namespace farside::test {

class Hosts final : public testing::Environment {
 public:
  static constexpr const char* kDevice = "far0";  ///< on both, for UCX_NET_DEVICES

  /// Whether the environment asks for two hosts.
  [[nodiscard]] static bool wanted();

  /// Makes the hosts if they are wanted; skips all tests when the process may not make them.
  void SetUp() override;

  /// Has this thread live on a host from now on. Nothing happens unless there are two.
  static void enter(unsigned host);

 private:
  static std::array<Fd, 2>& namespaces();
};

}  // namespace farside::test
