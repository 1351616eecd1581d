#include "stdio_reads.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>

#include <sys/mman.h>

#include "reads.h"
#include "result.h"
#include "system_call.h"

// glibc calls a stream's operations through tables that it exports, and checks that a stream's table is one of them.
// So the tables stay where they are, and two of their words change.
extern "C" {
using Operation = void*;
[[gnu::weak]] extern Operation _IO_file_jumps[];
[[gnu::weak]] extern Operation _IO_wfile_jumps[];
[[gnu::weak]] ssize_t _IO_file_read(FILE* stream, void* into, ssize_t bytes);
[[gnu::weak]] int _IO_file_close(FILE* stream);
}

namespace farside::preload {

namespace {

constexpr std::size_t kOperations = 21;
constexpr std::uintptr_t kPageBytes = 4096;

ssize_t stream_read(FILE* stream, void* into, ssize_t bytes) {
  const ssize_t got = read_on(stream->_fileno, into, static_cast<std::size_t>(bytes));
  return got != kPass ? as_libc_does(got) : _IO_file_read(stream, into, bytes);
}

int stream_close(FILE* stream) {
  const Changing changing(stream->_fileno);
  return _IO_file_close(stream);
}

template <class Function>
void replace(Operation* table, Function* known, Function* ours) {
  if (table == nullptr || known == nullptr) return;
  for (Operation* place = table; place < table + kOperations; ++place) {
    if (*place != reinterpret_cast<Operation>(known)) continue;
    const std::uintptr_t page = reinterpret_cast<std::uintptr_t>(place) & ~(kPageBytes - 1);
    if (system_call(SYS_mprotect, page, kPageBytes, PROT_READ | PROT_WRITE) != 0) return;
    __atomic_store_n(place, reinterpret_cast<Operation>(ours), __ATOMIC_RELEASE);
    system_call(SYS_mprotect, page, kPageBytes, PROT_READ);
    return;
  }
}

}  // namespace

void watch_stdio() {
  for (Operation* const table : {_IO_file_jumps, _IO_wfile_jumps}) {
    replace(table, _IO_file_close, stream_close);
    replace(table, _IO_file_read, stream_read);
  }
}

}  // namespace farside::preload
