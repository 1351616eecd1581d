// bulk_copy.h — the copy behind every Bulk access on this host.
#pragma once

#include <cstddef>
#include <cstring>

namespace farside {

/// memcpy between memory that others may change meanwhile: whoever gets mixed bytes was warned by the memory model,
/// and checks (channel.h). Kept from the thread sanitizer for that reason, and for that reason only.
__attribute__((no_sanitize("thread"), noinline)) void bulk_copy(std::byte* to, const std::byte* from,
                                                                std::size_t bytes);

}  // namespace farside
