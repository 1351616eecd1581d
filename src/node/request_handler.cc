#include "node/request_handler.h"

#include <cstring>
#include <optional>

#include <fcntl.h>
#include <unistd.h>

#include "farside/base/error.h"
#include "farside/base/rounding.h"
#include "farside/cache/time_limits.h"
#include "farside/fabric/host.h"

#include "base/assert.h"
#include "node/files/file_source.h"

namespace farside::node {

namespace {

namespace node_socket = cache::node_socket;

template <class Body>
ReplyPacket reply_with(const Body& body) {
  ReplyPacket reply;
  reply.bytes.resize(sizeof body);
  std::memcpy(reply.bytes.data(), &body, sizeof body);
  return reply;
}

ReplyPacket without_block(node_socket::Answer answer) {
  return reply_with(node_socket::Reply{.answer = answer, .zero = 0, .slot = 0, .token = 0, .file_system = 0});
}

ReplyPacket refuse() {
  ReplyPacket reply = without_block(node_socket::Answer::refused);
  reply.refused = true;
  return reply;
}

std::optional<node_socket::Request> parse(std::span<const std::byte> packet) {
  node_socket::Request request{};
  if (packet.size() != sizeof request) return std::nullopt;
  std::memcpy(&request, packet.data(), sizeof request);
  if (request.magic != node_socket::kMagic || request.version != node_socket::kVersion || request.zero != 0)
    return std::nullopt;
  return request;
}

node_socket::MemberSet lost_members(team::Team& team) {
  assert_that(team.size() <= node_socket::kMaxMembers, "farside up refuses larger pools");
  node_socket::MemberSet lost{};
  for (team::Rank rank = 0; rank < team.size(); ++rank) {
    if (!team.alive(rank)) lost.at(rank / 64) |= std::uint64_t{1} << rank % 64;
  }
  return lost;
}

bool readable(const Fd& file) {
  const int flags = ::fcntl(file.get(), F_GETFL);
  if (flags < 0 || (flags & O_PATH) != 0) return false;
  const int mode = flags & O_ACCMODE;
  return mode == O_RDONLY || mode == O_RDWR;
}

}  // namespace

std::optional<cache::BlockKey> RequestHandler::may_wait_for(std::span<const std::byte> packet) {
  const auto request = parse(packet);
  if (!request || request->kind != node_socket::RequestKind::acquire) return std::nullopt;
  return request->key;
}

std::optional<cache::BlockKey> RequestHandler::may_wait_for_mount(std::span<const std::byte> packet,
                                                                  std::span<const Fd> fds) {
  const auto request = parse(packet);
  if (!request || request->kind != node_socket::RequestKind::identify || fds.size() != 1) return std::nullopt;
  const auto mount = FileSystems::mount_of(fds.front());
  if (!mount) return std::nullopt;
  cache::BlockKey key{};
  key.file.file_system = mount->second;
  key.file.inode = mount->first;
  return key;
}

ReplyPacket RequestHandler::answer(Channel& channel, std::span<const std::byte> packet, std::span<const Fd> fds,
                                   cache::LoaderWatch& watch) {
  const std::optional<node_socket::Request> request = parse(packet);
  if (!request) return refuse();
  const bool about_file =
      request->kind == node_socket::RequestKind::identify || request->kind == node_socket::RequestKind::acquire;
  if (fds.size() != (about_file ? 1U : 0U)) return refuse();
  switch (request->kind) {
    case node_socket::RequestKind::map: return map();
    case node_socket::RequestKind::identify: return identify(fds.front());
    case node_socket::RequestKind::acquire: return acquire(channel, request->key, fds.front(), watch);
    case node_socket::RequestKind::status: return status();
  }
  return refuse();
}

ReplyPacket RequestHandler::map() const {
  const cache::CacheLayout& layout = cache_.layout();
  RegionFile slots = open_region_file(cache_.region());
  Fd board(::fcntl(board_.file().get(), F_DUPFD_CLOEXEC, 0));
  if (!board) throw errno_error("duplicate the descriptor of", "the board", "raise ulimit -n");
  ReplyPacket reply = reply_with(node_socket::MapReply{
      .answer = node_socket::Answer::here,
      .rank = team_.rank(),
      .block_bytes = layout.block_bytes,
      .slot_count = layout.slot_count,
      .slots_file_bytes = slots.file_bytes,
      .slots_offset = slots.offset + layout.slots_offset,
      .index_offset = slots.offset + layout.index_offset,
      .index_buckets = layout.index_buckets,
      .board_bytes = board_.bytes(),
  });
  reply.fds.push_back(std::move(slots.read_only));
  reply.fds.push_back(std::move(board));
  return reply;
}

ReplyPacket RequestHandler::identify(const Fd& file) {
  const auto identity = file_systems_.identify(file);
  if (!identity) return around();
  return reply_with(node_socket::Reply{
      .answer = node_socket::Answer::here, .zero = 0, .slot = 0, .token = 0, .file_system = identity->file_system});
}

ReplyPacket RequestHandler::acquire(Channel& channel, const cache::BlockKey& key, const Fd& file,
                                    cache::LoaderWatch& watch) {
  const std::uint64_t block_bytes = cache_.layout().block_bytes;
  if (key.index >= div_ceil(key.file.bytes, block_bytes)) return refuse();
  const auto found = readable(file) ? file_systems_.examine(file) : std::nullopt;
  if (!found || found->identity != key.file) return around();
  FileSource source(file, found->times, file_systems_, block_bytes);
  const Time began = team_.fabric().now();
  const cache::Acquired acquired =
      cache_.acquire(channel, key, source, team_.fabric().in(cache::time_limits::kAnswer), &watch);
  switch (acquired.answer) {
    case cache::Acquired::Answer::here: break;
    case cache::Acquired::Answer::failed: return around();
    case cache::Acquired::Answer::late: return busy();
    case cache::Acquired::Answer::elsewhere: return {.bytes = {}, .fds = {}, .refused = false, .come_again = true};
  }
  (source.was_read() ? latencies_.file : latencies_.memory).observe(team_.fabric().now() - began);
  prefaulter_.used(acquired.slot);
  return reply_with(node_socket::Reply{.answer = node_socket::Answer::here,
                                       .zero = 0,
                                       .slot = acquired.slot,
                                       .token = acquired.token,
                                       .file_system = key.file.file_system});
}

ReplyPacket RequestHandler::status() const {
  const cache::CacheLayout& layout = cache_.layout();
  const cache::CacheCounters counters = cache_.counters();
  const node_socket::HitStripe programs = board_.counts();
  const metrics::LatencyCounts from_memory = latencies_.memory.counts();
  const metrics::LatencyCounts from_files = latencies_.file.counts();
  return reply_with(node_socket::StatusReply{
      .answer = node_socket::Answer::here,
      .rank = team_.rank(),
      .process = static_cast<std::uint64_t>(::getpid()),
      .block_bytes = layout.block_bytes,
      .slot_count = layout.slot_count,
      .blocks = counters.blocks,
      .singlets = counters.singlets,
      .hits_local = programs.hits,
      .hit_bytes_local = programs.bytes,
      .blocks_from_peers = counters.blocks_from_peers,
      .bytes_from_peers = counters.bytes_from_peers,
      .blocks_from_files = counters.blocks_from_files,
      .bytes_from_files = counters.bytes_from_files,
      .discarded = counters.discarded,
      .around = around_.load(std::memory_order_relaxed),
      .busy = busy_.load(std::memory_order_relaxed),
      .mappings = programs.mappings,
      .mapped_bytes = programs.mapped_bytes,
      .direct = programs.direct,
      .writable = programs.writable,
      .fresh = programs.fresh,
      .memory_p50_ns = from_memory.quantile_ns(0.5),
      .memory_p99_ns = from_memory.quantile_ns(0.99),
      .file_p50_ns = from_files.quantile_ns(0.5),
      .file_p99_ns = from_files.quantile_ns(0.99),
      .members = team_.size(),
      .lacks_coordinator = team_.has_coordinator() ? 0U : 1U,
      .lost = lost_members(team_),
  });
}

ReplyPacket RequestHandler::around() {
  around_.fetch_add(1, std::memory_order_relaxed);
  return without_block(node_socket::Answer::around);
}

ReplyPacket RequestHandler::busy() {
  busy_.fetch_add(1, std::memory_order_relaxed);
  return without_block(node_socket::Answer::busy);
}

void RequestHandler::renew_leases(Channel& channel) {
  cache_.renew_leases(channel, team_.fabric().in(cache::time_limits::kRenewal));
}

}  // namespace farside::node
