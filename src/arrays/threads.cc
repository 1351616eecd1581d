#include "farside/arrays/threads.h"

#include <algorithm>
#include <thread>

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

namespace farside::arrays {

struct Threads::Pool {
  tbb::task_arena arena;
};

Threads::Threads(unsigned count) : count_(std::clamp(count, 1U, std::max(1U, std::thread::hardware_concurrency()))) {
  if (count_ > 1) pool_ = std::make_unique<Pool>(Pool{tbb::task_arena(static_cast<int>(count_))});
}

Threads::~Threads() = default;

void Threads::run(std::uint64_t pieces, std::uint64_t grain, Work work) const {
  if (pieces == 0) return;
  if (pool_ == nullptr || pieces <= grain) return work(0, pieces);
  const tbb::blocked_range<std::uint64_t> all(0, pieces, grain);
  pool_->arena.execute([&] {
    tbb::parallel_for(all, [work](const tbb::blocked_range<std::uint64_t>& part) { work(part.begin(), part.end()); });
  });
}

}  // namespace farside::arrays
