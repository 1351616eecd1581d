// memory.h — the bytes of a simulated region, and the store buffers between them and their owner's threads.
//
// Remote accesses see memory. A thread of the owner sees memory through its own buffered stores. A buffered store
// reaches memory at a random moment, after earlier ones of the same thread to the same word and before nothing else.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "farside/fabric/region.h"

#include "sim/network.h"
#include "sim/scheduler.h"

namespace farside::sim {

class SimMemory final : public LocalObserver, public std::enable_shared_from_this<SimMemory> {
 public:
  SimMemory(Scheduler& scheduler, const Network& network, ProcessId owner, std::string name, std::uint64_t bytes)
      : scheduler_(scheduler),
        network_(network),
        owner_(owner),
        name_(std::move(name)),
        bytes_(bytes),
        words_(zeroed_words((bytes + 7) / 8)) {}

  [[nodiscard]] std::byte* base() noexcept { return reinterpret_cast<std::byte*>(words_.get()); }
  [[nodiscard]] ProcessId owner() const noexcept { return owner_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  /// Its region is gone. Peers that still reach it find zeros from here on, and what they store is nowhere.
  void free();
  [[nodiscard]] bool freed() const noexcept { return freed_; }

  // Sleepers of the owner.
  /// Wakes them, as a signal does.
  void wake_sleepers();
  /// Within a thread: until a signal comes, or to `until`.
  void sleep_until(Time until);

  // The owner's threads.
  std::uint64_t load(std::uint64_t offset) override;
  void store(std::uint64_t offset, std::uint64_t value) override;
  void copy_in(std::uint64_t offset, std::span<const std::byte> bytes) override;
  void copy_out(std::uint64_t offset, std::span<std::byte> bytes) override;
  /// Returns when all stores of the running thread have reached memory.
  void drain();

  /// Atomics exclude each other on a word, and nothing else.
  [[nodiscard]] bool in_atomic(std::uint64_t offset) const { return busy_.contains(offset); }
  void begin_atomic(std::uint64_t offset) { busy_.insert(offset); }
  void end_atomic(std::uint64_t offset) { busy_.erase(offset); }

  /// The offset of `at` in this memory, if it lies there.
  [[nodiscard]] std::optional<std::uint64_t> offset_of(const std::byte* at);
  /// Tells the chooser of an access that is about to be made.
  void touch(std::uint64_t offset, Chooser::Access access);
  void touch_store(std::uint64_t offset, std::uint64_t value);

 private:
  struct Store {
    std::uint64_t number;
    std::uint32_t thread;
    std::uint64_t offset;
    std::uint64_t value;
  };
  void let_others_in();
  void reach_memory(std::uint64_t offset, std::uint64_t value);
  void commit_through(std::uint64_t number, std::uint64_t offset);
  void commit_all(std::uint32_t thread);
  [[nodiscard]] bool buffers_of(std::uint32_t thread) const;

  struct Free {
    void operator()(std::uint64_t* words) const { std::free(words); }
  };
  // From calloc, so that untouched pages of a large region take no memory.
  static std::unique_ptr<std::uint64_t[], Free> zeroed_words(std::uint64_t count);

  Scheduler& scheduler_;
  const Network& network_;
  ProcessId owner_;
  std::string name_;
  std::uint64_t bytes_;
  bool freed_ = false;
  std::unique_ptr<std::uint64_t[], Free> words_;  // NOLINT(modernize-avoid-c-arrays)
  std::deque<Store> buffered_;
  std::uint64_t stores_ = 0;
  std::map<std::uint32_t, Scheduler::Ticket> draining_;  // threads that wait for their stores
  std::vector<Scheduler::Ticket> sleepers_;
  std::set<std::uint64_t> busy_;
};

}  // namespace farside::sim
