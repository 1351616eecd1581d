#include "descriptors.h"

#include <algorithm>
#include <cstring>
#include <ctime>

#include <sys/mman.h>

#include "clock.h"
#include "system_call.h"

namespace farside::cache_preload {

namespace {

constexpr std::size_t kPageBytes = 4096;

// Zero pages until touched, so a program pays only for the descriptors that it reads from.
alignas(kPageBytes) constinit Descriptor descriptors[kDescriptors];
static_assert(sizeof(descriptors) % kPageBytes == 0);

// No descriptor from here on was ever examined.
constinit std::atomic<unsigned> unseen{0};

unsigned seen_end(unsigned last) {
  const unsigned end = unseen.load();
  return last < end ? last + 1 : end;
}

}  // namespace

Descriptor::Look Descriptor::look(CachedFile& file) const {
  const std::uint64_t before = state_.load(std::memory_order_acquire);
  if (static_cast<Kind>(before & kKindMask) != Kind::cached) return {before};
  auto* const words = reinterpret_cast<std::byte*>(&file);
  for (std::size_t i = 0; i < kFileWords; ++i) {
    const std::uint64_t word = file_[i].load(std::memory_order_acquire);
    std::memcpy(words + i * sizeof word, &word, sizeof word);
  }
  if (state_.load(std::memory_order_relaxed) != before) return {static_cast<std::uint64_t>(Kind::changing)};
  return {before};
}

bool Descriptor::step(std::uint64_t& state, Kind kind, std::uint64_t recording) {
  const std::uint64_t next = (state & ~(kGeneration - 1)) + kGeneration + recording + static_cast<std::uint64_t>(kind);
  if (!state_.compare_exchange_strong(state, next, std::memory_order_acq_rel)) return false;
  state = next;
  return true;
}

Descriptor::Look Descriptor::record(Look before, Kind found, const CachedFile& file) {
  if (before.kind() == Kind::changing || (before.state & kRecording) != 0) return before;
  // The flag keeps a second recorder from mixing its words with ours, even if the number changes meanwhile.
  std::uint64_t state = before.state;
  if (!step(state, Kind::changing, kRecording)) return {state};
  std::uint64_t words[kFileWords];
  std::memcpy(words, &file, sizeof file);
  for (std::size_t i = 0; i < kFileWords; ++i) file_[i].store(words[i], std::memory_order_release);
  if (!step(state, found, 0)) state_.fetch_and(~kRecording, std::memory_order_release);
  return {state};
}

// The state first: a read that finds the new count of changes finds the state changed as well, if it looks at it later.
void Descriptor::begin_change() {
  std::uint64_t state = state_.load(std::memory_order_relaxed);
  while (!step(state, Kind::changing, state & kRecording)) {
  }
  use_.fetch_add(1U << kReadBits, std::memory_order_acq_rel);
}

// One word for both: either the change finds this read, or this read finds the change.
bool Descriptor::enter(std::uint64_t changes) {
  if (use_.fetch_add(1, std::memory_order_acq_rel) >> kReadBits == changes) return true;
  leave();
  return false;
}

void Descriptor::end_change() {
  std::uint64_t state = state_.load(std::memory_order_relaxed);
  while (!step(state, Kind::unknown, state & kRecording)) {
  }
}

Descriptor* descriptor(int fd) {
  if (static_cast<unsigned>(fd) >= kDescriptors) return nullptr;
  return &descriptors[fd];
}

Descriptor::Look Descriptor::examine() {
  const auto after = static_cast<unsigned>(this - descriptors) + 1;
  unsigned known = unseen.load();
  while (known < after && !unseen.compare_exchange_weak(known, after)) {
  }
  return {state_.load(std::memory_order_acquire)};
}

void forget_all_descriptors() { system_call(SYS_madvise, descriptors, sizeof descriptors, MADV_DONTNEED); }

// Each time another number: a look that began before must not pass for one that came after (see is_unchanged).
void distrust_all_descriptors() {
  static constinit std::atomic<std::uint64_t> times{0};
  const std::uint64_t now = ++times;
  const unsigned end = unseen.load();
  for (unsigned fd = 0; fd < end; ++fd) descriptors[fd].checked_ns.store(now);
}

Changing::Changing(unsigned first, unsigned last) : first_(first), last_(last) {
  for (unsigned fd = first_; fd < seen_end(last_); ++fd) descriptors[fd].begin_change();
  wait_for_reads();
}

void Changing::wait_for_reads() const {
  std::uint64_t end_ns = 0;
  for (unsigned fd = first_; fd < seen_end(last_); ++fd) {
    while (descriptors[fd].has_reads()) {
      const std::uint64_t now_ns = coarse_now_ns();
      if (end_ns == 0) end_ns = now_ns + kMaxWait_ns;
      if (now_ns >= end_ns) return;
      constexpr timespec kMoment{0, 20'000};
      system_call(SYS_nanosleep, &kMoment, nullptr);
    }
  }
}

Changing::~Changing() {
  for (unsigned fd = first_; fd < seen_end(last_); ++fd) descriptors[fd].end_change();
}

}  // namespace farside::cache_preload
