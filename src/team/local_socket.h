// local_socket.h — sockets with a name in this host's file system: their addresses, and whose they are.
#pragma once

#include <optional>
#include <string>

#include <sys/types.h>
#include <sys/un.h>

#include "farside/base/fd.h"

namespace farside {

/// Throws Error when `path` is too long for one.
[[nodiscard]] sockaddr_un local_address(const std::string& path);

/// Has `socket` listen at `path`, where only this user may connect. Throws Error.
void listen_for_this_user(const Fd& socket, const std::string& path);

/// Whose process connected; none when the kernel does not say.
[[nodiscard]] std::optional<uid_t> peer_user(const Fd& connection);

}  // namespace farside
