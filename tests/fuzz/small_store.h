// small_store.h — a store in memory of its own.
#pragma once

#include <cstdint>
#include <memory>

#include "farside/fabric/fabric.h"

#include "kv/server/store.h"

namespace farside::fuzz {

class SmallStore {
 public:
  explicit SmallStore(Fabric& fabric) : fabric_(fabric) {}

  [[nodiscard]] kv::Store& operator*() { return store_; }
  [[nodiscard]] Channel& channel() { return *channel_; }

 private:
  static constexpr std::uint64_t kBytes = std::uint64_t{1} << 20U;

  Fabric& fabric_;
  std::unique_ptr<Region> memory_ = fabric_.create_region("store", kBytes);
  std::unique_ptr<Channel> channel_ = fabric_.open_channel();
  kv::Store store_{fabric_, *channel_, *memory_, {.bytes = kBytes}};
};

}  // namespace farside::fuzz
