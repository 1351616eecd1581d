// node_socket.h — how a program of the host talks to its node: a Unix socket, and memory that both map.
//
// The node listens on a SOCK_SEQPACKET socket, `node-<rank>.sock` in the pool's runtime directory. One request is one
// packet, answered by one packet, in order. Descriptors travel with packets as SCM_RIGHTS. Only processes of the
// node's user and of root are served (SO_PEERCRED). A program that gets no answer in time reads from the file system
// instead.
//
// Needs nothing but libc, since the preload library includes it. See docs/protocols/cache.md, "The node socket".
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "farside/cache/block.h"

namespace farside::cache::node_socket {

inline constexpr std::uint32_t kMagic = 0x66617264;  // "fard"
inline constexpr std::uint32_t kVersion = 3;

enum class RequestKind : std::uint32_t {
  map = 1,       ///< reply MapReply, with two descriptors: the slots (read-only) and the board (read-write)
  identify = 2,  ///< with the file's descriptor: which file system is this? reply in `file_system`
  acquire = 3,   ///< with the file's descriptor: bring this block into a slot
  status = 4,    ///< reply StatusReply
};

struct Request {
  std::uint32_t magic;
  std::uint32_t version;
  RequestKind kind;
  std::uint32_t zero;
  BlockKey key;  ///< acquire: what the program took from fstat; identify: ignored
};
static_assert(sizeof(Request) == 64 && std::has_unique_object_representations_v<Request>);

enum class Answer : std::uint32_t {
  here = 1,     ///< acquire: the block is in `slot` under `token`; identify: the file system is `file_system`
  around = 2,   ///< read this file from the kernel: it changed, or it cannot be cached
  refused = 3,  ///< the request was not understood; the node closes the connection
  busy = 4,     ///< acquire: read this block from the kernel, for the node has not got it in time; it may have the next
};

struct Reply {
  Answer answer;
  std::uint32_t zero;
  std::uint64_t slot;
  std::uint64_t token;
  std::uint64_t file_system;
};
static_assert(sizeof(Reply) == 32 && std::has_unique_object_representations_v<Reply>);

/// A program whose wait for the node timed out creates a file beside its socket, with this at the end of its name, so
/// that the others of the host need not wait, too. Until the time of its last modification, if that is a minute away at
/// most, the node is taken to be unresponsive: no program asks it. The file of a node that is gone has the time 0: it
/// only keeps the others from saying so once more. The node removes it when it starts, and when a program parts with
/// it.
inline constexpr const char* kSilenceSuffix = ".silent";

/// The places in the two mappings.
struct MapReply {
  Answer answer;
  std::uint32_t rank;
  std::uint64_t block_bytes;  ///< a power of two
  std::uint64_t slot_count;
  std::uint64_t slots_file_bytes;  ///< of the descriptor of the slots, all of it is to be mapped
  std::uint64_t slots_offset;      ///< of slot 0; slot i is at + i * slot_stride(block_bytes)
  std::uint64_t index_offset;      ///< of the first IndexBucket, in the same mapping
  std::uint64_t index_buckets;
  std::uint64_t board_bytes;  ///< of the descriptor of the board
};
static_assert(sizeof(MapReply) == 64 && std::has_unique_object_representations_v<MapReply>);

/// The board: what programs tell the node without asking. It influences statistics and which block goes first, nothing
/// else, so a program that scribbles over it harms no data.
///
///     0 stripes    kStripes sets of counters, each in a cache line of its own; a program adds to its CPU's, and may
///                  lose a count when it changes CPUs just then, or when there are more CPUs than stripes
///  4096 stamps     one word a slot: CLOCK_MONOTONIC_COARSE in ns when a program last read from it
struct HitStripe {
  std::uint64_t hits;
  std::uint64_t bytes;
  // Files below the named directories that programs left to the kernel without asking the node.
  std::uint64_t mappings;
  std::uint64_t mapped_bytes;
  std::uint64_t direct;    ///< descriptors that were read from with O_DIRECT
  std::uint64_t writable;  ///< ... that may be written as well
  std::uint64_t fresh;     ///< ... of files that had just changed
  std::uint64_t zero;
};
static_assert(sizeof(HitStripe) == 64);
inline constexpr std::uint64_t kStripes = 64;
inline constexpr std::uint64_t kStampsOffset = kStripes * sizeof(HitStripe);

[[nodiscard]] constexpr std::uint64_t board_bytes(std::uint64_t slot_count) { return kStampsOffset + 8 * slot_count; }

/// The largest pool, on all machines.
inline constexpr std::uint32_t kMaxMembers = 1024;
/// A bit for each node of a pool: node n is bit n % 64 of word n / 64.
using MemberSet = std::array<std::uint64_t, kMaxMembers / 64>;

/// A node's identity, its counters since it started, and which nodes of the pool are lost to it.
struct StatusReply {
  Answer answer;
  std::uint32_t rank;
  std::uint64_t process;  ///< its process id
  std::uint64_t block_bytes;
  std::uint64_t slot_count;
  std::uint64_t blocks;      ///< slots that hold one
  std::uint64_t singlets;    ///< of them in the singlet FIFO
  std::uint64_t hits_local;  ///< reads of this host's programs answered out of this node's slots
  std::uint64_t hit_bytes_local;
  std::uint64_t blocks_from_peers;  ///< copied from another node's memory
  std::uint64_t bytes_from_peers;
  std::uint64_t blocks_from_files;  ///< read from the file system
  std::uint64_t bytes_from_files;
  std::uint64_t discarded;  ///< blocks dropped to make room
  std::uint64_t around;     ///< requests answered `around` ...
  std::uint64_t busy;       ///< ... and `busy`
  std::uint64_t mappings;   ///< this and what follows: see HitStripe
  std::uint64_t mapped_bytes;
  std::uint64_t direct;
  std::uint64_t writable;
  std::uint64_t fresh;
  std::uint64_t memory_p50_ns;  ///< how long a block took that came from a node's memory: median, 0 when none came ...
  std::uint64_t memory_p99_ns;
  std::uint64_t file_p50_ns;  ///< ... and from the file system
  std::uint64_t file_p99_ns;
  std::uint64_t members;            ///< nodes of the pool, on all machines, kMaxMembers at most
  std::uint64_t lacks_coordinator;  ///< 1: no deaths on other machines are noticed; else 0
  MemberSet lost;                   ///< those that died, left, or do not reach the pool's first machine
};
static_assert(sizeof(StatusReply) == 336 && std::has_unique_object_representations_v<StatusReply>);

}  // namespace farside::cache::node_socket
