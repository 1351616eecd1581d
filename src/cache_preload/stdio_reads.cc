#include "stdio_reads.h"

#include <cstddef>

#include "far_reads.h"
#include "reads.h"
#include "result.h"
#include "stream_operations.h"

namespace farside::cache_preload {

namespace {

constinit StreamRead* replaced_read = nullptr;

ssize_t stream_read(FILE* stream, void* into, ssize_t bytes) {
  const ssize_t got = read_on(stream->_fileno, into, static_cast<std::size_t>(bytes));
  return got != kPass ? as_libc_does(got) : replaced_read(stream, into, bytes);
}

int stream_close(FILE* stream) {
  const Changing changing(stream->_fileno);
  return next_stream_close(stream);
}

}  // namespace

void watch_stdio() {
  replace_stream_operation(next_stream_close.find(), stream_close);
  replaced_read = next_stream_read.find();
  if (replace_stream_operation(replaced_read, stream_read) || farside_far_stream_read == nullptr) return;
  replaced_read = farside_far_stream_read;
  replace_stream_operation(replaced_read, stream_read);
}

}  // namespace farside::cache_preload
