// file_limit.h — how many descriptors this process may have.
#pragma once

#include <cstddef>
#include <string>

namespace farside {

/// As many as it is allowed: a server of many clients needs more than the usual soft limit.
void allow_many_files();

/// For a child of fork before it becomes another program, which may rely on a low limit, as select does: the soft limit
/// is what it was before allow_many_files. Safe between fork and exec.
void forget_many_files() noexcept;

/// Throws Error when this process may not open `more` descriptors beside those that are open: in advance, since a want
/// of them shows up later, somewhere else. Says that `tried` failed, on `on`.
void expect_files(std::size_t more, const std::string& tried, const std::string& on);

}  // namespace farside
