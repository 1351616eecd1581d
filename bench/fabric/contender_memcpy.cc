// The least that any of them can cost where memory is shared: the same bytes, copied once within one process.
#include <atomic>
#include <cstring>
#include <vector>

#include "farside/base/fd.h"

#include "bench/fabric/work.h"

namespace farside::bench {
namespace {

class Copier {
 public:
  void run(const Work& work, std::uint64_t rounds) {
    for (; rounds != 0; --rounds) {
      for (std::uint64_t i = 0; i < work.depth; ++i) one(work, work.offset(i));
    }
  }

 private:
  void one(const Work& work, std::uint64_t offset) {
    std::byte* const there = there_.base() + offset;
    std::byte* const here = here_.data() + offset;
    switch (work.operation) {
      case Operation::read: std::memcpy(here, there, work.bytes); return;
      case Operation::write: std::memcpy(there, here, work.bytes); return;
      case Operation::fetch_add: std::atomic_ref(*reinterpret_cast<std::uint64_t*>(there)).fetch_add(1); return;
    }
  }

  Mapping there_{make_memfd("there", kRegionBytes), kRegionBytes, Mapping::Access::read_write};  // as a region is
  std::vector<std::byte> here_ = std::vector<std::byte>(kRegionBytes, std::byte{1});
};

}  // namespace
}  // namespace farside::bench

int main() {
  using namespace farside::bench;
  Copier copier;
  copier.run({Operation::write, kLargestBytes, kRegionBytes / kLargestBytes}, 1);  // every page is there
  answer_questions([&](const Work& work, std::uint64_t rounds) { copier.run(work, rounds); });
  return 0;
}
