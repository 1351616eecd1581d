// The kernels of `farside bench far`: what they compute does not depend on where their memory is.
#include <cstdint>

#include <gtest/gtest.h>

#include "bench/far/kernels/heap_memory.h"
#include "bench/far/kernels/kernel.h"
#include "bench/far/kernels/plain_memory.h"
#include "tests/support/pool.h"

namespace farside::bench {
namespace {

constexpr KernelSize kSmall{.bytes = 7 << 20, .rounds = 1};

std::uint64_t compute(const std::string& kernel, Memory& memory) {
  const auto computation = kernel_kind(kernel).make(memory, kSmall);
  computation->prepare();
  computation->run();
  return computation->checked();
}

std::uint64_t computed_in_ordinary_memory(const std::string& kernel) {
  const auto memory = open_plain_memory({}, kSmall.bytes);
  return compute(kernel, *memory);
}

class Kernels : public test::PoolTest {};

TEST_F(Kernels, ComputeTheSameInAFarHeapWithAQuarterOfItHere) {
  ASSERT_EQ(up({"-n", "2", "--cache", "16M", "--far", "32M"}).code(), 0);
  for (const KernelKind& kind : kernel_kinds()) {
    const std::string name(kind.name);
    const std::uint64_t expected = computed_in_ordinary_memory(name);
    for (const bool hints : {false, true}) {
      const auto memory = open_heap_memory({.local_bytes = kSmall.bytes / 4, .hints = hints}, kSmall.bytes);
      EXPECT_EQ(compute(name, *memory), expected) << name;
      EXPECT_GT(memory->traffic().bytes_in, 0U) << name;
    }
  }
}

TEST_F(Kernels, ComputeTheSameInAMappedFile) {
  const test::TemporaryDirectory folder;
  const auto memory = open_plain_memory({.map = folder.path() / "file"}, kSmall.bytes);
  EXPECT_EQ(compute("himeno", *memory), computed_in_ordinary_memory("himeno"));
}

TEST_F(Kernels, ComputeTheSameAlongHyperplanesAsAlongPlanes) {
  const auto run = [](KernelSize planes, KernelSize hyperplanes) {
    const auto memory = open_plain_memory({}, 0);
    const auto one = make_lu(*memory, planes);
    const auto other = make_lu_hp(*memory, hyperplanes);
    for (Kernel* const kernel : {one.get(), other.get()}) {
      kernel->prepare();
      kernel->run();
    }
    EXPECT_EQ(one->checked(), other->checked());
  };
  constexpr std::uint64_t kPoints = 20 * 20 * 20 + 1;
  run({.bytes = kPoints * 136, .rounds = 2}, {.bytes = kPoints * 140, .rounds = 2});
}

}  // namespace
}  // namespace farside::bench
