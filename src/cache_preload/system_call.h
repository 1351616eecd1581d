// system_call.h — the kernel, asked directly.
//
// libc's own wrappers set errno, are cancellation points, and would lead back into our hooks.
//
// Stands alone: the hooks of both preloaded libraries use it.
#pragma once

#include <cerrno>

#include <sys/syscall.h>

#ifndef __x86_64__
#error "the preload library is written for x86-64"
#endif

namespace farside::cache_preload {

/// Returns what the kernel returned: an error is -errno.
template <class... Words>
long system_call(long number, Words... words) {
  static_assert(sizeof...(Words) <= 6);
  const long given[6] = {(long)(words)...};  // NOLINT: pointers and integers alike become words
  register long fourth asm("r10") = given[3];
  register long fifth asm("r8") = given[4];
  register long sixth asm("r9") = given[5];
  long answer = number;
  asm volatile("syscall"
               : "+a"(answer)
               : "D"(given[0]), "S"(given[1]), "d"(given[2]), "r"(fourth), "r"(fifth), "r"(sixth)
               : "rcx", "r11", "memory");
  return answer;
}

}  // namespace farside::cache_preload
