// silence.h — what the programs of this host have found out about a node that does not answer, so that each need not
// find it out for itself. A file beside the node's socket; see node_socket::kSilenceSuffix.
//
// Any thread, and any signal handler, may call anything. Where the file cannot be had, each program is on its own.
#pragma once

namespace farside::cache_preload::silence {

/// Sets the path of the node's socket. Called once, before anything else here.
void name(const char* socket_path);

/// Whether another program found the node silent a short while ago.
[[nodiscard]] bool is_noted();
/// Whether one did a while ago, and it is time to look whether that is over: the caller is to, and others are kept off.
[[nodiscard]] bool take_retry();

enum class Noted : unsigned char { first, again, not_possible };
/// The node did not answer.
Noted note_silent();
/// There is no node.
Noted note_gone();

/// It answers.
void take_back();

}  // namespace farside::cache_preload::silence
