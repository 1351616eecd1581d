// stream_operations.h — what libc's streams call inside libc, where no function of ours stands in front.
//
// glibc calls a stream's operations through tables that it exports, and checks that a stream's table is one of them. So
// the tables stay where they are, and words of them change. When libc is not as we know it, nothing does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>

#include <sys/mman.h>

#include "system_call.h"

extern "C" {
using StreamOperation = void*;
[[gnu::weak]] extern StreamOperation _IO_file_jumps[];
[[gnu::weak]] extern StreamOperation _IO_wfile_jumps[];
[[gnu::weak]] ssize_t _IO_file_read(FILE* stream, void* into, ssize_t bytes);
[[gnu::weak]] int _IO_file_close(FILE* stream);
/// far memory's, where its library is preloaded too and has replaced _IO_file_read.
[[gnu::weak]] ssize_t farside_far_stream_read(FILE* stream, void* into, ssize_t bytes);
}

namespace farside::preload {

/// Returns whether `known` was an operation of streams, which is `ours` now.
template <class Function>
bool replace_stream_operation(Function* known, Function* ours) {
  constexpr std::size_t kOperations = 21;
  constexpr std::uintptr_t kPageBytes = 4096;
  bool found = false;
  for (StreamOperation* const table : {_IO_file_jumps, _IO_wfile_jumps}) {
    if (table == nullptr || known == nullptr) continue;
    for (StreamOperation* place = table; place < table + kOperations; ++place) {
      if (*place != reinterpret_cast<StreamOperation>(known)) continue;
      const std::uintptr_t page = reinterpret_cast<std::uintptr_t>(place) & ~(kPageBytes - 1);
      if (system_call(SYS_mprotect, page, kPageBytes, PROT_READ | PROT_WRITE) != 0) break;
      __atomic_store_n(place, reinterpret_cast<StreamOperation>(ours), __ATOMIC_RELEASE);
      system_call(SYS_mprotect, page, kPageBytes, PROT_READ);
      found = true;
      break;
    }
  }
  return found;
}

}  // namespace farside::preload
