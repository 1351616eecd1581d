// mounts.h — which file system a descriptor is on, as the node names it.
#pragma once

#include <cstdint>

namespace farside::cache_preload::mounts {

/// The tag of the file system of `fd`; 0 when its files cannot be cached, or the node does not answer. What the node
/// said is remembered for as long as the mount lasts. Any thread, and any signal handler, may call it.
std::uint64_t tag_of(int fd);

/// The node does not accept this tag: it may be the name that a former pool gave.
void forget(std::uint64_t tag);

void after_fork();

}  // namespace farside::cache_preload::mounts
