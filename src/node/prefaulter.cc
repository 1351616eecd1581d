#include "node/prefaulter.h"

#include <algorithm>
#include <utility>

#include "farside/base/rounding.h"
#include "farside/fabric/host.h"

#include "base/assert.h"

namespace farside::node {

namespace {

// Each call waits for every CPU once, so a stretch is several large pages. It is short enough to stay ahead.
constexpr std::uint64_t kStretchBytes = 8U << 20U;
constexpr std::uint64_t kAheadBytes = 64U << 20U;

}  // namespace

Prefaulter::Prefaulter(const Region& region, const cache::CacheLayout& layout)
    : region_(region),
      layout_(layout),
      used_end_(layout.slots_offset),
      taken_(div_ceil(region.bytes(), kStretchBytes)),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

void Prefaulter::used(std::uint64_t slot) {
  const std::uint64_t end = layout_.slots_offset + (slot + 1) * cache::slot_stride(layout_.block_bytes);
  assert_that(end <= region_.bytes(), "a block comes into a slot of the region");
  const MutexLock lock(mutex_);
  if (end <= used_end_) return;
  used_end_ = end;
  wake_.notify_one();
}

void Prefaulter::run(const std::stop_token& stop) {
  MutexLock lock(mutex_);
  std::optional<std::size_t> stretch;
  while (wake_.wait(lock, stop, [&]() REQUIRES(mutex_) { return (stretch = next()).has_value(); }) &&
         !stop.stop_requested()) {
    taken_[*stretch] = true;
    lock.unlock();
    const std::uint64_t offset = *stretch * kStretchBytes;
    populate(region_, offset, std::min(kStretchBytes, region_.bytes() - offset));
    lock.lock();
  }
}

// Prefers a stretch ahead of the blocks; then one that they overtook, since large pages are read faster as well.
std::optional<std::size_t> Prefaulter::next() const {
  const std::size_t here = used_end_ / kStretchBytes;
  const std::size_t end = std::min(taken_.size(), (used_end_ + kAheadBytes) / kStretchBytes);
  for (const auto& [first, last] : {std::pair(here, end), std::pair(std::size_t{0}, here)}) {
    for (std::size_t stretch = first; stretch < last; ++stretch) {
      if (!taken_[stretch]) return stretch;
    }
  }
  return std::nullopt;
}

}  // namespace farside::node
