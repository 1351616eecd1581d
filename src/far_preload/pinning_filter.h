// pinning_filter.h — no system calls that let others than this program's threads write into its memory.
#pragma once

namespace farside::far_preload {

/// For this process and all that it starts, unless it is so already. 0, or -errno.
[[nodiscard]] long forbid_pinning();

}  // namespace farside::far_preload
