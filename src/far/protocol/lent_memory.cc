#include "far/protocol/lent_memory.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "farside/base/error.h"

#include "base/assert.h"
#include "far/time_limits.h"

namespace farside::far {

namespace {

std::uint64_t load(Channel& channel, const RemoteRegion& table, std::uint64_t offset, Deadline deadline) {
  const Result<std::uint64_t> word = channel.load(table.word<ControlWord>(offset), deadline);
  if (!word.done()) {
    throw Error({"read", "a node's table of slabs", std::string(to_string(word.status)), "see farside status"});
  }
  return word.value;
}

}  // namespace

LentMemory::LentMemory(Fabric& fabric, std::unique_ptr<RemoteRegion> table, std::unique_ptr<RemoteRegion> memory,
                       Holder self)
    : fabric_(fabric),
      table_(std::move(table)),
      memory_(std::move(memory)),
      life_(fabric.life(peer())),
      by_memory_(fabric.reaches_by_memory(peer())),
      self_(self) {
  const auto channel = fabric.open_channel();
  const Deadline deadline = fabric.in(time_limits::kTable);
  const auto word = [&](std::uint64_t offset) { return load(*channel, *table_, offset, deadline); };
  const std::uint64_t magic = word(offsetof(TableHead, magic));
  const std::uint64_t slabs = word(offsetof(TableHead, slabs));
  slab_bytes_ = word(offsetof(TableHead, slab_bytes));
  const bool is_whole = magic == kTableMagic && std::has_single_bit(slab_bytes_) && slabs <= UINT32_MAX &&
                        table_bytes(slabs) <= table_->bytes() && slabs <= memory_->bytes() / slab_bytes_;
  if (!is_whole || self == 0) {
    throw Error({"use", "a node's table of slabs", "it is not that of far memory of this version",
                 "run the same version of farside everywhere"});
  }
  slabs_ = static_cast<SlabNumber>(slabs);
}

LentMemory::Take LentMemory::take(Channel& channel, SlabNumber& slab, Deadline deadline) {
  {
    const MutexLock lock(mutex_);
    ++taking_;
  }
  const Take take = try_take(channel, slab, deadline);
  const MutexLock lock(mutex_);
  --taking_;
  if (take == Take::taken) ++takes_[slab];
  return take;
}

// From a place at random in each piece of the table, so that clients do not run after each other.
LentMemory::Take LentMemory::try_take(Channel& channel, SlabNumber& slab, Deadline deadline) {
  bool may_come = false;
  bool bare = false;
  Words words;
  for (SlabNumber first = 0; first < slabs_; first += kWordsAtOnce) {
    const std::uint64_t count = std::min<std::uint64_t>(kWordsAtOnce, slabs_ - first);
    const LocalSpan into(words.data(), 8 * count);
    if (channel.read(into, table_->span(word_offset(first), 8 * count), deadline) != Outcome::done) return Take::failed;
    const std::uint64_t begin = fabric_.random() % count;
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t at = (begin + i) % count;
      const SlabWord word = SlabWord::of(words[at]);
      bare |= word.state == SlabState::bare;
      may_come |= word.state == SlabState::returned;
      if (word.state != SlabState::free) continue;
      const SlabNumber number = first + static_cast<SlabNumber>(at);
      const SlabWord mine{SlabState::taken, self_};
      const Result<std::uint64_t> old =
          channel.compare_swap(table_->word<AtomicWord>(word_offset(number)), words[at], mine.bits(), deadline);
      if (!old.done()) return Take::failed;
      may_come = true;  // if another client was faster there, there may be others
      if (old.value != words[at]) continue;
      slab = number;
      ring(channel, deadline);
      return Take::taken;
    }
  }
  if (bare) {
    const Result<std::uint64_t> is_short =
        channel.load(table_->word<ControlWord>(offsetof(TableHead, is_short)), deadline);
    if (!is_short.done()) return Take::failed;
    may_come |= is_short.value == 0;
  }
  if (may_come) ring(channel, deadline);
  return may_come ? Take::soon : Take::full;
}

Outcome LentMemory::give_back(Channel& channel, SlabNumber slab, Deadline deadline) {
  assert_that(slab < slabs_, "a slab that is given back is one of the node's");
  const SlabWord mine{SlabState::taken, self_};
  const SlabWord returned{SlabState::returned, self_};
  const Result<std::uint64_t> old =
      channel.compare_swap(table_->word<AtomicWord>(word_offset(slab)), mine.bits(), returned.bits(), deadline);
  if (old.done()) ring(channel, deadline);
  return old.status;
}

std::uint64_t LentMemory::takes(SlabNumber slab) const {
  const MutexLock lock(mutex_);
  const auto found = takes_.find(slab);
  return found == takes_.end() ? 0 : found->second;
}

// A thread that took it before the word was read is under way, or has counted that.
std::optional<bool> LentMemory::is_still_taken(Channel& channel, SlabNumber slab, std::uint64_t takes,
                                               Deadline deadline) const {
  const Result<std::uint64_t> word = channel.load(table_->word<AtomicWord>(word_offset(slab)), deadline);
  if (!word.done()) return std::nullopt;
  const SlabWord mine{SlabState::taken, self_};
  if (word.value != mine.bits()) return false;
  const MutexLock lock(mutex_);
  if (const auto found = takes_.find(slab); found == takes_.end() || found->second != takes) return false;
  return taking_ == 0 ? std::optional(true) : std::nullopt;
}

// The node looks now and then without it, too.
void LentMemory::ring(Channel& channel, Deadline deadline) {
  (void)channel.add_signal(table_->word<AtomicWord>(offsetof(TableHead, bell)), 1, deadline);
}

bool LentMemory::answers(Channel& channel, Deadline deadline) {
  const Result<std::uint64_t> magic = channel.load(table_->word<ControlWord>(offsetof(TableHead, magic)), deadline);
  if (magic.status == Outcome::peer_lost && !lost()) mark_lost();
  return magic.done();
}

void LentMemory::ask(Batch& batch, std::uint64_t& word) const {
  batch.read(LocalSpan(word), table_->span(offsetof(TableHead, magic), sizeof word));
}

std::optional<LentUse> LentMemory::use(Channel& channel, Deadline deadline) const {
  LentUse use{.slab_bytes = slab_bytes_};
  Words words;
  for (SlabNumber first = 0; first < slabs_; first += kWordsAtOnce) {
    const std::uint64_t count = std::min<std::uint64_t>(kWordsAtOnce, slabs_ - first);
    const LocalSpan into(words.data(), 8 * count);
    if (channel.read(into, table_->span(word_offset(first), 8 * count), deadline) != Outcome::done) return std::nullopt;
    for (std::uint64_t i = 0; i < count; ++i) {
      switch (SlabWord::of(words[i]).state) {
        case SlabState::bare: ++use.bare; break;
        case SlabState::free: ++use.free; break;
        case SlabState::taken: ++use.taken; break;
        case SlabState::returned: ++use.returned; break;
      }
    }
  }
  return use;
}

}  // namespace farside::far
