// memory.h — the bytes of a simulated region, and the store buffers between them and their owner's threads.
//
// Remote accesses see memory. A thread of the owner sees memory through its own buffered stores. A buffered store
// reaches memory at a random moment, after earlier ones of the same thread to the same word and before nothing else.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "farside/fabric/region.h"

#include "sim/network.h"
#include "sim/scheduler.h"

namespace farside::sim {

class SimMemory final : public LocalObserver, public std::enable_shared_from_this<SimMemory> {
 public:
  SimMemory(Scheduler& scheduler, const Network& network, ProcessId owner, std::uint64_t bytes)
      : scheduler_(scheduler), network_(network), owner_(owner), words_((bytes + 7) / 8) {}

  [[nodiscard]] std::byte* base() noexcept { return reinterpret_cast<std::byte*>(words_.data()); }
  [[nodiscard]] ProcessId owner() const noexcept { return owner_; }

  // The owner's threads.
  std::uint64_t load(std::uint64_t offset) override;
  void store(std::uint64_t offset, std::uint64_t value) override;
  void copy_in(std::uint64_t offset, std::span<const std::byte> bytes) override;
  void copy_out(std::uint64_t offset, std::span<std::byte> bytes) override;
  /// All buffered stores of the running thread reach memory.
  void drain();

  /// Atomics exclude each other on a word, and nothing else. False when another one is in the middle of it.
  bool begin_atomic(std::uint64_t offset) { return busy_.insert(offset).second; }
  void end_atomic(std::uint64_t offset) { busy_.erase(offset); }

 private:
  struct Store {
    std::uint64_t number;
    std::uint32_t thread;
    std::uint64_t offset;
    std::uint64_t value;
  };
  void commit_through(std::uint64_t number);

  Scheduler& scheduler_;
  const Network& network_;
  ProcessId owner_;
  std::vector<std::uint64_t> words_;
  std::deque<Store> buffered_;
  std::uint64_t stores_ = 0;
  std::set<std::uint64_t> busy_;
};

}  // namespace farside::sim
