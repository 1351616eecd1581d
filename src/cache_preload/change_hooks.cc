// The functions of libc that make a descriptor's number mean something else.
#include <climits>
#include <cstdarg>
#include <cstdio>

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "descriptors.h"
#include "next.h"
#include "open_hooks.h"
#include "system_call.h"

using farside::cache_preload::begin_file;
using farside::cache_preload::begin_number;
using farside::cache_preload::begin_stream;
using farside::cache_preload::Changing;
using farside::cache_preload::look_anew;
using farside::cache_preload::Next;
using farside::cache_preload::system_call;

namespace {

constinit Next<decltype(close)> next_close("close");
constinit Next<decltype(closefrom)> next_closefrom("closefrom");
constinit Next<decltype(close_range)> next_close_range("close_range");
constinit Next<decltype(dup2)> next_dup2("dup2");
constinit Next<decltype(dup3)> next_dup3("dup3");
constinit Next<decltype(freopen)> next_freopen("freopen");
constinit Next<decltype(freopen64)> next_freopen64("freopen64");
constinit Next<decltype(syscall)> next_syscall("syscall");

// For system calls that have a hook under their own name.
void after_system_call(long number, long command, long answer) {
  const int fd = static_cast<int>(answer);
  switch (number) {
    case SYS_open:
    case SYS_openat:
    case SYS_openat2:
    case SYS_creat:
      if (fd >= 0) begin_file(fd, static_cast<int>(system_call(SYS_fcntl, fd, F_GETFL)));
      break;
    case SYS_dup: begin_number(fd); break;
    case SYS_fcntl:
      if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) begin_number(fd);
      [[fallthrough]];
    case SYS_flock:
    case SYS_truncate:
      if (answer >= 0) look_anew();
      break;
    default: break;
  }
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int close(int fd) {
  const Changing changing(fd);
  return next_close(fd);
}

void closefrom(int first) noexcept {
  const Changing changing(first < 0 ? 0 : static_cast<unsigned>(first), UINT_MAX);
  next_closefrom(first);
}

int close_range(unsigned first, unsigned last, int flags) noexcept {
  const Changing changing(first, last);
  return next_close_range(first, last, flags);
}

int dup2(int from, int to) noexcept {
  const Changing changing(to);
  return next_dup2(from, to);
}

int dup3(int from, int to, int flags) noexcept {
  const Changing changing(to);
  return next_dup3(from, to, flags);
}

FILE* freopen(const char* path, const char* mode, FILE* stream) {
  FILE* const opened = [&] {
    const Changing changing(stream->_fileno);
    return next_freopen(path, mode, stream);
  }();
  if (opened != nullptr) begin_stream(opened);
  return opened;
}

FILE* freopen64(const char* path, const char* mode, FILE* stream) {
  FILE* const opened = [&] {
    const Changing changing(stream->_fileno);
    return next_freopen64(path, mode, stream);
  }();
  if (opened != nullptr) begin_stream(opened);
  return opened;
}

// Some call these directly; libuv does.
long syscall(long number, ...) noexcept {
  va_list list;
  va_start(list, number);
  long words[6];
  for (long& word : words) word = va_arg(list, long);
  va_end(list);

  unsigned first = UINT_MAX;
  unsigned last = UINT_MAX;
  if (number == SYS_close) first = last = static_cast<unsigned>(words[0]);
  if (number == SYS_dup2 || number == SYS_dup3) first = last = static_cast<unsigned>(words[1]);
  if (number == SYS_close_range) {
    first = static_cast<unsigned>(words[0]);
    last = static_cast<unsigned>(words[1]);
  }
  const Changing changing(first, last);
  const long answer = next_syscall(number, words[0], words[1], words[2], words[3], words[4], words[5]);
  after_system_call(number, words[1], answer);
  return answer;
}

}  // extern "C"
#pragma GCC visibility pop
