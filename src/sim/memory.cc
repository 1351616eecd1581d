#include "sim/memory.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "farside/base/error.h"

namespace farside::sim {

namespace {

constexpr Duration kMaxBufferTime = std::chrono::microseconds(5);

void require_words(std::uint64_t offset, std::size_t bytes) {
  if (offset % 8 != 0 || bytes % 8 != 0) {
    throw Error({"copy within simulated memory", std::to_string(bytes) + " bytes at " + std::to_string(offset),
                 "the simulator takes whole words only", "align the copy to 8 bytes"});
  }
}

}  // namespace

std::unique_ptr<std::uint64_t[], SimMemory::Free> SimMemory::zeroed_words(std::uint64_t count) {
  auto* const words = static_cast<std::uint64_t*>(std::calloc(count, sizeof(std::uint64_t)));
  if (words == nullptr) throw std::bad_alloc();
  return std::unique_ptr<std::uint64_t[], Free>(words);
}

void SimMemory::free() {
  if (!network_.freed_reads_blank) return;
  freed_ = true;
  std::memset(words_.get(), 0, (bytes_ + 7) / 8 * 8);
}

void SimMemory::wake_sleepers() {
  for (const Scheduler::Ticket sleeper : std::exchange(sleepers_, {})) scheduler_.wake(sleeper);
}

void SimMemory::sleep_until(Time until) {
  sleepers_.push_back(scheduler_.ticket());
  scheduler_.sleep_until(until);
}

// Between any two accesses of a thread. That one in four makes room for others is enough, and takes fewer events.
void SimMemory::let_others_in() {
  if (!network_.interleaves_accesses || !scheduler_.in_thread()) return;
  if (scheduler_.chosen() || scheduler_.one_in(4)) scheduler_.step_aside(network_.latency);
}

std::uint64_t SimMemory::load(std::uint64_t offset) {
  let_others_in();
  touch(offset, Chooser::Access::look);
  const std::uint32_t thread = scheduler_.ticket().thread;
  const auto newest = std::find_if(buffered_.rbegin(), buffered_.rend(),
                                   [&](const auto& store) { return store.thread == thread && store.offset == offset; });
  return newest != buffered_.rend() ? newest->value : words_[offset / 8];
}

void SimMemory::store(std::uint64_t offset, std::uint64_t value) {
  let_others_in();
  if (!network_.buffers_stores) {
    reach_memory(offset, value);
    return;
  }
  const std::uint64_t number = ++stores_;
  const std::uint32_t thread = scheduler_.ticket().thread;
  if (!buffers_of(thread)) {
    scheduler_.before_release(this, [memory = weak_from_this(), thread] {
      if (const auto alive = memory.lock()) alive->commit_all(thread);
    });
  }
  buffered_.push_back({number, thread, offset, value});
  scheduler_.after(scheduler_.up_to(kMaxBufferTime),
                   [memory = shared_from_this(), number, offset] { memory->commit_through(number, offset); });
}

void SimMemory::copy_in(std::uint64_t offset, std::span<const std::byte> bytes) {
  require_words(offset, bytes.size());
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, 8);
    store(offset + at, word);
  }
}

void SimMemory::copy_out(std::uint64_t offset, std::span<std::byte> bytes) {
  require_words(offset, bytes.size());
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    const std::uint64_t word = load(offset + at);
    std::memcpy(bytes.data() + at, &word, 8);
  }
}

void SimMemory::drain() {
  const std::uint32_t thread = scheduler_.ticket().thread;
  while (buffers_of(thread)) {
    draining_[thread] = scheduler_.ticket();
    scheduler_.sleep_until_gone_on();
  }
}

bool SimMemory::buffers_of(std::uint32_t thread) const {
  return std::ranges::any_of(buffered_, [thread](const Store& store) { return store.thread == thread; });
}

void SimMemory::reach_memory(std::uint64_t offset, std::uint64_t value) {
  touch_store(offset, value);
  words_[offset / 8] = value;
  scheduler_.record(offset ^ value, [&] {
    return "store by process " + std::to_string(owner_) + ", " + scheduler_.word(offset, value);
  });
}

// The store `number`, and with it whatever its thread had stored to that word earlier. A chooser is told that the order
// of those matters, though none of them is seen where the last comes first.
void SimMemory::commit_through(std::uint64_t number, std::uint64_t offset) {
  const auto last = std::ranges::lower_bound(buffered_, number, {}, &Store::number);
  if (last == buffered_.end() || last->number != number) return touch(offset, Chooser::Access::look);
  const Store committed = *last;
  const auto is_replaced = [&](const Store& store) {
    return store.thread == committed.thread && store.offset == committed.offset;
  };
  const auto kept = std::remove_if(buffered_.begin(), last, is_replaced);
  if (kept != last) touch(offset, Chooser::Access::change);
  reach_memory(committed.offset, committed.value);
  buffered_.erase(kept, std::next(last));
  if (const auto waiting = draining_.find(committed.thread);
      waiting != draining_.end() && !buffers_of(committed.thread)) {
    scheduler_.wake(waiting->second);
    draining_.erase(waiting);
  }
}

void SimMemory::commit_all(std::uint32_t thread) {
  for (const Store& store : std::exchange(buffered_, {})) {
    if (store.thread == thread) {
      reach_memory(store.offset, store.value);
    } else {
      buffered_.push_back(store);
    }
  }
}

std::optional<std::uint64_t> SimMemory::offset_of(const std::byte* at) {
  const auto begin = reinterpret_cast<std::uintptr_t>(base());
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  if (address < begin || address >= begin + bytes_) return std::nullopt;
  return address - begin;
}

void SimMemory::touch(std::uint64_t offset, Chooser::Access access) {
  scheduler_.touch(std::uint64_t{owner_} << 40U | offset / 8, access);
}

void SimMemory::touch_store(std::uint64_t offset, std::uint64_t value) {
  touch(offset, words_[offset / 8] == value ? Chooser::Access::same : Chooser::Access::change);
}

}  // namespace farside::sim
