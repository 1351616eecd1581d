// local_socket.h — sockets with a name in this host's file system: their addresses, and whose they are.
#pragma once

#include <string>

#include <sys/un.h>

#include "farside/base/fd.h"

namespace farside::net {

/// Throws Error when `path` is too long for one.
[[nodiscard]] sockaddr_un local_address(const std::string& path);

/// Has `socket` listen at `path`, where only this user may connect. Throws Error.
void listen_for_this_user(const Fd& socket, const std::string& path);

/// Whether a process of this user connected. One of root's counts as another: a node reads its programs' files into
/// memory that this user may map.
[[nodiscard]] bool is_of_this_user(const Fd& connection);

}  // namespace farside::net
