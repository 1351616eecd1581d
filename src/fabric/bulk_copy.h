// bulk_copy.h — the copies behind every access to memory that others may change meanwhile.
//
// The thread sanitizer does not look at them: the memory model allows mixed bytes, and the caller checks for them
// (channel.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace farside {

/// memcpy; racing accesses of others may be mixed in, word by word: where both places are aligned to 8, each aligned
/// word is moved whole. (The C library moves nothing narrower there, and splits nothing wider but between words. The
/// litmus test OwnersCopies.KeepEachWordWhole looks.)
__attribute__((no_sanitize("thread"), noinline)) void bulk_copy(std::byte* to, const std::byte* from,
                                                                std::size_t bytes);

/// Eight bytes by one load and one store, each whole where it is aligned.
__attribute__((no_sanitize("thread"))) inline void word_copy(std::byte* to, const std::byte* from) {
  using Unaligned __attribute__((aligned(1), may_alias)) = std::uint64_t;
  *reinterpret_cast<volatile Unaligned*>(to) = *reinterpret_cast<const volatile Unaligned*>(from);
}

}  // namespace farside
