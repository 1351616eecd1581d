// The functions of libc that open files, copy descriptors and take locks.
#include "open_hooks.h"

#include <cstdarg>
#include <cstdio>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "descriptors.h"
#include "next.h"
#include "system_call.h"
#include "writers.h"

using farside::cache_preload::begin_file;
using farside::cache_preload::begin_number;
using farside::cache_preload::begin_stream;
using farside::cache_preload::look_anew;
using farside::cache_preload::Next;

// Functions that the compiler calls instead of open when it is given no mode.
extern "C" {
int __open_2(const char* path, int flags);
int __open64_2(const char* path, int flags);
int __openat_2(int directory, const char* path, int flags);
int __openat64_2(int directory, const char* path, int flags);
}

namespace farside::cache_preload {

void begin_number(int fd) {
  if (fd >= 0) const Changing changing(fd);
}

void begin_file(int fd, int flags) {
  begin_number(fd);
  const bool may_change = (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC) != 0;
  if (fd >= 0 && may_change) note_writer(fd);
}

void begin_stream(FILE* stream) {
  const int fd = stream->_fileno;
  begin_file(fd, static_cast<int>(system_call(SYS_fcntl, fd, F_GETFL)));
}

void look_anew() { distrust_all_descriptors(); }

}  // namespace farside::cache_preload

namespace {

constinit Next<decltype(open)> next_open("open");
constinit Next<decltype(openat)> next_openat("openat");
constinit Next<decltype(fopen)> next_fopen("fopen");
constinit Next<decltype(dup)> next_dup("dup");
constinit Next<decltype(fcntl)> next_fcntl("fcntl");
constinit Next<decltype(flock)> next_flock("flock");
constinit Next<decltype(lockf)> next_lockf("lockf");
constinit Next<decltype(truncate)> next_truncate("truncate");

int open_as(const char* path, int flags, mode_t mode) {
  const int fd = next_open(path, flags, mode);
  begin_file(fd, flags);
  return fd;
}

int open_at(int directory, const char* path, int flags, mode_t mode) {
  const int fd = next_openat(directory, path, flags, mode);
  begin_file(fd, flags);
  return fd;
}

mode_t mode_in(va_list list, int flags) {
  const bool has_mode = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  return has_mode ? va_arg(list, mode_t) : 0;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_in(list, flags);
  va_end(list);
  return open_as(path, flags, mode);
}

int openat(int directory, const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_in(list, flags);
  va_end(list);
  return open_at(directory, path, flags, mode);
}

int __open_2(const char* path, int flags) { return open_as(path, flags, 0); }
int __openat_2(int directory, const char* path, int flags) { return open_at(directory, path, flags, 0); }

int creat(const char* path, mode_t mode) { return open_as(path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

FILE* fopen(const char* path, const char* mode) {
  FILE* const stream = next_fopen(path, mode);
  if (stream != nullptr) begin_stream(stream);
  return stream;
}

int dup(int fd) noexcept {
  const int copy = next_dup(fd);
  begin_number(copy);
  return copy;
}

int fcntl(int fd, int command, ...) {
  va_list list;
  va_start(list, command);
  void* const argument = va_arg(list, void*);
  va_end(list);
  const int answer = next_fcntl(fd, command, argument);
  const bool sets_lock = command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK || command == F_OFD_SETLKW;
  if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) begin_number(answer);
  if (sets_lock && answer == 0) look_anew();
  return answer;
}

int flock(int fd, int operation) noexcept {
  const int answer = next_flock(fd, operation);
  if (answer == 0) look_anew();
  return answer;
}

int lockf(int fd, int command, off_t bytes) {
  const int answer = next_lockf(fd, command, bytes);
  if (answer == 0) look_anew();
  return answer;
}

int truncate(const char* path, off_t bytes) noexcept {
  const int answer = next_truncate(path, bytes);
  if (answer == 0) look_anew();
  return answer;
}
// off_t has 64 bits here.
[[gnu::alias("open")]] int open64(const char* path, int flags, ...);
[[gnu::alias("openat")]] int openat64(int directory, const char* path, int flags, ...);
[[gnu::alias("__open_2")]] int __open64_2(const char* path, int flags);
[[gnu::alias("__openat_2")]] int __openat64_2(int directory, const char* path, int flags);
[[gnu::alias("creat")]] int creat64(const char* path, mode_t mode);
[[gnu::alias("fopen")]] FILE* fopen64(const char* path, const char* mode);
[[gnu::alias("fcntl")]] int fcntl64(int fd, int command, ...);
[[gnu::alias("lockf")]] int lockf64(int fd, int command, off64_t bytes);
[[gnu::alias("truncate")]] int truncate64(const char* path, off64_t bytes) noexcept;

}  // extern "C"
#pragma GCC visibility pop
