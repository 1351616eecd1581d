#include "host_memory.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "farside/base/rounding.h"

#include "system_call.h"

namespace farside::cache_preload {

namespace {

namespace node_socket = cache::node_socket;

constexpr std::uint64_t kLargePageBytes = std::uint64_t{2} << 20U;  // as in base/fd.h

constexpr std::uint64_t kSmallestBlock = 4096;  // as in cache/geometry.cc: slot_stride divides by a part of it

std::uint64_t load(const ControlWord& word) { return __atomic_load_n(&word.bits, __ATOMIC_ACQUIRE); }

bool fits(std::uint64_t offset, std::uint64_t count, std::uint64_t stride, std::uint64_t bytes) {
  return stride != 0 && offset <= bytes && count <= (bytes - offset) / stride;
}

bool makes_sense(const node_socket::MapReply& reply) {
  return reply.answer == node_socket::Answer::here && std::has_single_bit(reply.block_bytes) &&
         reply.block_bytes >= kSmallestBlock && reply.block_bytes <= reply.slots_file_bytes &&
         std::has_single_bit(reply.index_buckets) && reply.slot_count <= cache::kMaximumSlots &&
         reply.slots_offset % 64 == 0 && reply.index_offset % 64 == 0 &&
         fits(reply.slots_offset, reply.slot_count, cache::slot_stride(reply.block_bytes), reply.slots_file_bytes) &&
         fits(reply.index_offset, reply.index_buckets, sizeof(cache::IndexBucket), reply.slots_file_bytes) &&
         reply.board_bytes >= node_socket::board_bytes(reply.slot_count);
}

std::byte* map_memory(std::uint64_t place, std::uint64_t bytes, int protection, int flags, int file) {
  const long address = system_call(SYS_mmap, place, bytes, protection, flags, file, 0);
  return address > 0 ? reinterpret_cast<std::byte*>(address) : nullptr;  // NOLINT(performance-no-int-to-ptr)
}

// Free addresses that suit large pages, or 0 for any. A hint: another thread may take them first.
std::uint64_t place_for(std::uint64_t bytes) {
  const std::uint64_t room = bytes + kLargePageBytes;
  const long free = system_call(SYS_mmap, 0, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (free <= 0) return 0;
  system_call(SYS_munmap, free, room);
  return round_up(static_cast<std::uint64_t>(free), kLargePageBytes);
}

std::byte* map_file(int file, std::uint64_t bytes, int protection) {
  struct stat64 found {};
  if (system_call(SYS_fstat, file, &found) != 0 || static_cast<std::uint64_t>(found.st_size) < bytes) return nullptr;
  std::byte* const base = map_memory(place_for(bytes), bytes, protection, MAP_SHARED, file);
  if (base != nullptr) system_call(SYS_madvise, base, bytes, MADV_DONTDUMP);  // a program's core is not the pool's
  return base;
}

void unmap(const std::byte* base, std::uint64_t bytes) {
  if (base != nullptr) system_call(SYS_munmap, base, bytes);
}

// Asks for the first bytes of a piece before anything else is looked at, so that all of them come at once. The
// processor itself would only find out line by line where a copy goes. What is wrongly asked for does no harm.
void prefetch_lines(const std::byte* from, std::uint64_t bytes) {
  constexpr std::uint64_t kMaxBytes = 4096;
  constexpr std::uint64_t kLineBytes = 64;
  for (std::uint64_t at = 0; at < std::min(bytes, kMaxBytes); at += kLineBytes) __builtin_prefetch(from + at);
}

// Adds by one instruction, which nothing on this CPU comes between. A locked one would first wait until all that was
// copied has left the store buffer.
void add_on_this_cpu(std::uint64_t& word, std::uint64_t addend) { asm("addq %1, %0" : "+m"(word) : "er"(addend)); }

}  // namespace

const HostMemory* HostMemory::map(const node_socket::MapReply& reply, int slots, int board) {
  if (!makes_sense(reply)) return nullptr;
  const std::byte* const slots_base = map_file(slots, reply.slots_file_bytes, PROT_READ);
  std::byte* const board_base = map_file(board, reply.board_bytes, PROT_READ | PROT_WRITE);
  auto* const memory = reinterpret_cast<HostMemory*>(
      map_memory(0, sizeof(HostMemory), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1));
  if (slots_base == nullptr || board_base == nullptr || memory == nullptr) {  // a node may be asked again and again
    unmap(slots_base, reply.slots_file_bytes);
    unmap(board_base, reply.board_bytes);
    return nullptr;
  }
  memory->slots_base_ = slots_base;
  memory->slots_bytes_ = reply.slots_file_bytes;
  memory->board_base_ = board_base;
  memory->board_bytes_ = reply.board_bytes;
  memory->block_bits_ = static_cast<unsigned>(std::countr_zero(reply.block_bytes));
  memory->slot_stride_ = cache::slot_stride(reply.block_bytes);
  memory->slot_count_ = reply.slot_count;
  memory->bucket_mask_ = reply.index_buckets - 1;
  memory->slots_ = slots_base + reply.slots_offset;
  memory->index_ = reinterpret_cast<const cache::IndexBucket*>(slots_base + reply.index_offset);
  memory->stripes_ = reinterpret_cast<node_socket::HitStripe*>(board_base);
  memory->stamps_ = reinterpret_cast<std::uint64_t*>(board_base + node_socket::kStampsOffset);
  return memory;
}

// The kernel has the old mapping gone for all threads before one of them sees the new: a thread that has seen a zero
// sees no old byte afterwards, so the token that it looks at last tells it.
void HostMemory::blank() const {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  map_memory(reinterpret_cast<std::uintptr_t>(slots_base_), slots_bytes_, PROT_READ, kFlags, -1);
  map_memory(reinterpret_cast<std::uintptr_t>(board_base_), board_bytes_, PROT_READ | PROT_WRITE, kFlags, -1);
}

node_socket::HitStripe& HostMemory::own_stripe() const {
  return stripes_[static_cast<unsigned>(sched_getcpu()) % node_socket::kStripes];
}

void HostMemory::count(std::uint64_t node_socket::HitStripe::*counter, std::uint64_t addend) const {
  add_on_this_cpu(own_stripe().*counter, addend);
}

bool HostMemory::copy(const Piece& piece, void* into) const {
  const cache::IndexBucket& bucket = index_[piece.id & bucket_mask_];
  for (const ControlWord& word : bucket.words) {
    const std::uint64_t hint = load(word);
    if (((hint ^ piece.id) & ~cache::kIndexSlotMask) != 0 || (hint & cache::kIndexSlotMask) == 0) continue;
    if (!copy_from_slot((hint & cache::kIndexSlotMask) - 1, piece, into)) continue;
    node_socket::HitStripe& stripe = own_stripe();
    add_on_this_cpu(stripe.hits, 1);
    add_on_this_cpu(stripe.bytes, piece.bytes);
    return true;
  }
  return false;
}

bool HostMemory::copy_from_slot(std::uint64_t slot, const Piece& piece, void* into) const {
  if (slot >= slot_count_) return false;
  const std::byte* const start = slots_ + slot * slot_stride_;
  prefetch_lines(start + sizeof(cache::SlotHeader) + piece.from, piece.bytes);
  const ControlWord& token = reinterpret_cast<const cache::SlotHeader*>(start)->token;
  const auto& label = *reinterpret_cast<const cache::BlockLabel*>(start + offsetof(cache::SlotHeader, key));

  const std::uint64_t before = load(token);
  if (before == 0 || label.key.file != piece.file || label.key.index != piece.index) return false;
  if (label.bytes >> block_bits_ > 1 || piece.from > label.bytes || piece.bytes > label.bytes - piece.from)
    return false;
  std::memcpy(into, start + sizeof(cache::SlotHeader) + piece.from, piece.bytes);
  std::atomic_thread_fence(std::memory_order_acquire);
  if (load(token) != before) return false;

  const std::atomic_ref stamp(stamps_[slot]);
  if (stamp.load(std::memory_order_relaxed) != piece.now_ns) stamp.store(piece.now_ns, std::memory_order_relaxed);
  return true;
}

}  // namespace farside::cache_preload
