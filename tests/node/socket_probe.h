// socket_probe.h — asks a node over its socket as a program does, and in ways in which no program does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "farside/base/fd.h"
#include "farside/cache/node_socket.h"

namespace farside::test {

[[nodiscard]] Fd open_file(const std::filesystem::path& path);

class SocketProbe {
 public:
  explicit SocketProbe(const std::filesystem::path& socket);

  [[nodiscard]] const Fd& socket() const noexcept { return socket_; }

  bool send(std::span<const std::byte> packet, std::span<const Fd> fds = {});
  bool send(const cache::node_socket::Request& request, std::span<const Fd> fds = {});
  /// The answer to `request`; nothing when the node closed the connection instead.
  std::optional<cache::node_socket::Reply> ask(const cache::node_socket::Request& request,
                                               std::span<const Fd> fds = {});
  /// True when the node has nothing more to say to this connection.
  bool closed();

  [[nodiscard]] static cache::node_socket::Request request(cache::node_socket::RequestKind kind,
                                                           const cache::BlockKey& key = {});
  /// What a program takes from fstat, and the tag that the node gives.
  std::optional<cache::FileIdentity> identify(const Fd& file);
  std::optional<cache::node_socket::Reply> acquire(const Fd& file, const cache::BlockKey& key);

  /// Block `index` of the file, copied out of the node's memory; nothing when the node says `around`.
  std::optional<std::string> read_block(const Fd& file, std::uint64_t index);
  /// The whole file, block by block. Nothing when the node says `around` to one.
  std::optional<std::string> read_file(const std::filesystem::path& path);

 private:
  void map();
  std::optional<std::string> copy(const cache::node_socket::Reply& at, const cache::BlockKey& key) const;

  Fd socket_;
  cache::node_socket::MapReply layout_{};
  Mapping slots_;
};

}  // namespace farside::test
