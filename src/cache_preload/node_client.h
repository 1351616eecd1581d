// node_client.h — asking the node: connections to its socket, requests and replies.
#pragma once

#include <cstdint>

#include "farside/cache/node_socket.h"

namespace farside::cache_preload {

class HostMemory;

/// The one node of this process. Any thread, and any signal handler, may call anything; what one of them is using is
/// out of the others' reach, so nothing waits but for the node's answer.
namespace node {

/// Sets the path of its socket. Called once, before anything else here.
void name(const char* socket_path);

/// Its memory, mapped when first asked for; that of its successor once `ask` has found one. Null when the node cannot
/// be reached: then the first call says so on standard error.
const HostMemory* memory();

/// Sends a request with the descriptor `file` and takes the reply. Returns false when there is none: then the node
/// counts as dead. A node that was started again listens at the same socket, so one call at a time looks for it there,
/// with exponential backoff; all others return false at once.
bool ask(cache::node_socket::RequestKind kind, const cache::BlockKey& key, int file, cache::node_socket::Reply& reply);

/// After a fork: the connections belong to the parent.
void forget_connections();

}  // namespace node

}  // namespace farside::cache_preload
