// request_handler.h — what the requests of the host's programs mean. How they arrive is socket_server.h's business.
//
// Requests come from any process of the node's user and are untrusted: sizes, fields and descriptors are checked here,
// and a file's identity is taken from the descriptor itself, never from what the request claims.
//
// Thread safety: every call, from any thread; each brings its own Channel.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "farside/base/fd.h"
#include "farside/cache/cache.h"
#include "farside/cache/node_socket.h"
#include "farside/team/team.h"

#include "node/block_latencies.h"
#include "node/board.h"
#include "node/files/file_system.h"
#include "node/prefaulter.h"

namespace farside::node {

/// One packet to send back. After a refusal the connection is closed.
struct ReplyPacket {
  std::vector<std::byte> bytes;
  std::vector<Fd> fds;
  bool refused = false;
  bool come_again = false;  ///< nothing to send: another node loads the block
};

class RequestHandler {
 public:
  /// All must outlive the handler.
  RequestHandler(team::Team& team, cache::Cache& cache, const Board& board, Prefaulter& prefaulter)
      : team_(team), cache_(cache), board_(board), prefaulter_(prefaulter) {}

  /// The block for which the answer may have to wait for a file system, perhaps for ever.
  [[nodiscard]] static std::optional<cache::BlockKey> may_wait_for(std::span<const std::byte> packet);
  /// The same of a mount, in the form of a block's key: its file system may be asked for its name.
  [[nodiscard]] static std::optional<cache::BlockKey> may_wait_for_mount(std::span<const std::byte> packet,
                                                                         std::span<const Fd> fds);
  /// Sends the program to the kernel, which is always right: for good ...
  ReplyPacket around();
  /// ... or for one read.
  ReplyPacket busy();

  /// `packet` as it arrived, and the descriptors that came with it. `watch`: of this request, see Cache::acquire.
  ReplyPacket answer(Channel& channel, std::span<const std::byte> packet, std::span<const Fd> fds,
                     cache::LoaderWatch& watch);

  /// To be called every time_limits::kLook while requests for blocks are under way, by a thread that answers none.
  void renew_leases(Channel& channel);

 private:
  ReplyPacket map() const;
  ReplyPacket identify(const Fd& file);
  ReplyPacket acquire(Channel& channel, const cache::BlockKey& key, const Fd& file, cache::LoaderWatch& watch);
  ReplyPacket status() const;

  team::Team& team_;
  cache::Cache& cache_;
  const Board& board_;
  Prefaulter& prefaulter_;
  FileSystems file_systems_;
  std::atomic<std::uint64_t> around_ = 0;
  std::atomic<std::uint64_t> busy_ = 0;
  BlockLatencies latencies_;
};

}  // namespace farside::node
