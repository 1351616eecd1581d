// file_limit.h — how many descriptors this process may have.
#pragma once

namespace farside {

/// As many as it is allowed: for who serves many, the usual soft limit is far below that.
void allow_many_files();

}  // namespace farside
