// pinning_filter.h — no system calls that let others than this program's threads write into its memory.
#pragma once

#include <span>

#include <linux/filter.h>

namespace farside::far_preload {

/// For this process and all that it starts, unless it is so already. 0, or -errno.
[[nodiscard]] long forbid_pinning();

/// The filter that it sets.
[[nodiscard]] std::span<const sock_filter> pinning_filter();

}  // namespace farside::far_preload
