// allocated.h — for the library of allocation_hooks.cc, which is preloaded beside this one when farside far keeps a
// profile or has hints. Stands alone: it is the interface between the two libraries.
#pragma once

#include <cstddef>

extern "C" {

/// From so much on an allocation may be far; before there is far memory, none.
// NOLINTNEXTLINE(bugprone-dynamic-static-initializers): it begins with a constant
[[gnu::visibility("default")]] extern std::size_t farside_far_large_bytes;

/// Tells farside far that `caller` got this. Nothing is allocated, and errno stays.
[[gnu::visibility("default")]] void farside_far_allocated(const void* begin, std::size_t bytes, const void* caller);

}  // extern "C"
