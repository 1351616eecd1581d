#include "reads.h"

#include <algorithm>

#include <unistd.h>

#include "far_reads.h"
#include "host_memory.h"
#include "mounts.h"
#include "node_client.h"
#include "system_call.h"

namespace farside::cache_preload {

namespace {

namespace node_socket = cache::node_socket;

constexpr int kAttempts = 3;  // a block may be recycled between the node's answer and our copy

bool fetch(int fd, const CachedDescriptor& cached, const HostMemory& memory, const Piece& piece, void* into) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    node_socket::Reply reply{};
    if (!node::ask(node_socket::RequestKind::acquire, {piece.file, piece.index}, fd, reply)) return false;
    if (reply.answer == node_socket::Answer::busy) return false;
    if (reply.answer != node_socket::Answer::here) {
      cached.pass();
      mounts::forget(piece.file.file_system);
      return false;
    }
    if (memory.copy_from_slot(reply.slot, piece, into)) return true;
  }
  return false;
}

ssize_t fill_parts(int fd, const CachedDescriptor& cached, const iovec* parts, std::size_t bytes,
                   std::uint64_t offset) {
  std::size_t done = 0;
  for (const iovec* part = parts; done < bytes; ++part) {
    const std::size_t wanted = std::min(part->iov_len, bytes - done);
    const ssize_t got = fill(fd, cached, static_cast<std::byte*>(part->iov_base), wanted, offset + done);
    if (got < 0) return done > 0 ? static_cast<ssize_t>(done) : got;
    done += static_cast<std::size_t>(got);
    if (static_cast<std::size_t>(got) < wanted) break;
  }
  return static_cast<ssize_t>(done);
}

// How much is asked for; 0 if it is nothing, or an error that the kernel is to find.
std::size_t total(const iovec* parts, int count) {
  if (count < 0 || count > IOV_MAX) return 0;
  std::size_t bytes = 0;
  for (int i = 0; i < count; ++i) {
    if (parts[i].iov_len > SSIZE_MAX - bytes) return 0;
    bytes += parts[i].iov_len;
  }
  return std::min(bytes, kMaxBytes);
}

// Reads from the file that was looked at; kPass when the number means another by now. `into` may be far memory, for
// which the file system's own way of reading matters.
ssize_t fill_from_kernel(int fd, const CachedDescriptor& cached, std::byte* into, std::size_t bytes,
                         std::uint64_t offset) {
  const ByNumber by_number(cached);
  if (!by_number) return kPass;
  if (farside_far_read_at != nullptr) return farside_far_read_at(fd, into, bytes, static_cast<off_t>(offset));
  return system_call(SYS_pread64, fd, into, bytes, offset);
}

long move_offset(int fd, std::int64_t by) { return system_call(SYS_lseek, fd, by, SEEK_CUR); }

}  // namespace

ssize_t fill(int fd, const CachedDescriptor& cached, std::byte* into, std::size_t bytes, std::uint64_t offset) {
  const HostMemory& memory = *node::memory();
  const std::uint64_t block_bytes = std::uint64_t{1} << memory.block_bits();
  std::size_t done = 0;
  while (done < bytes) {
    const std::uint64_t from = (offset + done) & (block_bytes - 1);
    const std::uint64_t index = (offset + done) >> memory.block_bits();
    const Piece piece{.file = cached.file.identity,
                      .index = index,
                      .id = cache::block_id(cached.file.hash, index),
                      .from = from,
                      .bytes = std::min(bytes - done, block_bytes - from),
                      .now_ns = cached.now_ns};
    if (!memory.copy(piece, into + done) && !fetch(fd, cached, memory, piece, into + done)) {
      const ssize_t got = fill_from_kernel(fd, cached, into + done, bytes - done, offset + done);
      if (got < 0) return done > 0 ? static_cast<ssize_t>(done) : got;
      return static_cast<ssize_t>(done) + got;
    }
    done += piece.bytes;
  }
  return static_cast<ssize_t>(done);
}

ssize_t read_at(int fd, const iovec* parts, int count, off_t offset) {
  const CachedDescriptor cached = cached_descriptor(fd);
  const std::size_t wanted = cached ? total(parts, count) : 0;
  // At the end the kernel knows better: the file may have grown.
  const std::uint64_t size = cached.file.identity.bytes;
  if (wanted == 0 || offset < 0 || static_cast<std::uint64_t>(offset) >= size) return kPass;
  const auto start = static_cast<std::uint64_t>(offset);
  return fill_parts(fd, cached, parts, std::min<std::uint64_t>(wanted, size - start), start);
}

// The range is claimed by moving the offset past it, in one step, before it is read: a reader that shares the offset
// goes on behind it. Steps are relative, so that when several of us correct theirs the sum is right in any order. When
// the number comes to mean another file in the middle of it, this read is one of the file before, perhaps a short one,
// or, if it has got nothing, one of the file after.
ssize_t read_on(int fd, const iovec* parts, int count) {
  const CachedDescriptor cached = cached_descriptor(fd);
  const std::size_t wanted = cached ? total(parts, count) : 0;
  if (wanted == 0) return kPass;
  const ByNumber by_number(cached);
  if (!by_number) return kPass;
  const std::uint64_t size = cached.file.identity.bytes;

  std::uint64_t expected = cached.place->expected_offset.load(std::memory_order_relaxed);
  if (expected + wanted > size) expected = static_cast<std::uint64_t>(move_offset(fd, 0));
  if (expected >= size) return kPass;
  auto claimed = static_cast<std::int64_t>(std::min<std::uint64_t>(wanted, size - expected));
  const long after = move_offset(fd, claimed);
  if (after < claimed) return kPass;
  const auto start = static_cast<std::uint64_t>(after - claimed);
  if (start + static_cast<std::uint64_t>(claimed) > size) {  // another reader was there first
    const auto fair = static_cast<std::int64_t>(size - std::min(start, size));
    move_offset(fd, fair - claimed);
    if (fair == 0) return kPass;
    claimed = fair;
  }

  const ssize_t got = fill_parts(fd, cached, parts, static_cast<std::size_t>(claimed), start);
  const std::int64_t moved = std::max<std::int64_t>(got, 0);
  if (moved < claimed && by_number) move_offset(fd, moved - claimed);
  cached.place->expected_offset.store(start + static_cast<std::uint64_t>(moved), std::memory_order_relaxed);
  return got;
}

}  // namespace farside::cache_preload
