// The functions of libc that execute a program. They do what they always do, after a look at the program.
#include <cstdarg>
#include <cstddef>

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include "cache_preload/next.h"
#include "static_programs.h"

namespace {

using farside::cache_preload::Next;
using farside::far_preload::warn_if_static;
using farside::far_preload::warn_if_static_at;
using farside::far_preload::warn_if_static_in_path;
using Words = char* const*;
using SpawnFunction = int(pid_t*, const char*, const posix_spawn_file_actions_t*, const posix_spawnattr_t*, Words,
                          Words);

constinit Next<int(const char*, Words)> next_execv("execv");
constinit Next<int(const char*, Words, Words)> next_execve("execve");
constinit Next<int(const char*, Words)> next_execvp("execvp");
constinit Next<int(const char*, Words, Words)> next_execvpe("execvpe");
constinit Next<int(int, Words, Words)> next_fexecve("fexecve");
constinit Next<int(int, const char*, Words, Words, int)> next_execveat("execveat");
constinit Next<SpawnFunction> next_posix_spawn("posix_spawn");
constinit Next<SpawnFunction> next_posix_spawnp("posix_spawnp");

// A child of fork or vfork must not wait for a dlopen of its parent's threads.
[[gnu::constructor]] void find_all() {
  const auto find = [](auto&... each) { (each.find(), ...); };
  find(next_execv, next_execve, next_execvp, next_execvpe, next_fexecve, next_execveat, next_posix_spawn,
       next_posix_spawnp);
}

// Calls `execute` with an array of the arguments of execl and its relatives, on the stack: a child of vfork may
// allocate nothing. `rest` is then at what follows the null pointer at their end.
template <class Execute>
int with_words(const char* first, va_list rest, Execute execute) {
  va_list counted;
  va_copy(counted, rest);
  std::size_t count = 1;
  for (const char* word = first; word != nullptr; word = va_arg(counted, const char*)) ++count;
  va_end(counted);
  auto* const words = static_cast<const char**>(__builtin_alloca(count * sizeof first));
  words[0] = first;
  for (std::size_t i = 1; i < count; ++i) words[i] = va_arg(rest, const char*);
  return execute(const_cast<char**>(words), rest);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int execv(const char* path, Words words) noexcept {
  warn_if_static(path);
  return next_execv(path, words);
}

int execve(const char* path, Words words, Words environment) noexcept {
  warn_if_static(path);
  return next_execve(path, words, environment);
}

int execvp(const char* name, Words words) noexcept {
  warn_if_static_in_path(name);
  return next_execvp(name, words);
}

int execvpe(const char* name, Words words, Words environment) noexcept {
  warn_if_static_in_path(name);
  return next_execvpe(name, words, environment);
}

int execl(const char* path, const char* first, ...) noexcept {
  va_list rest;
  va_start(rest, first);
  const int result = with_words(first, rest, [path](Words words, va_list /*rest*/) { return execv(path, words); });
  va_end(rest);
  return result;
}

int execlp(const char* name, const char* first, ...) noexcept {
  va_list rest;
  va_start(rest, first);
  const int result = with_words(first, rest, [name](Words words, va_list /*rest*/) { return execvp(name, words); });
  va_end(rest);
  return result;
}

int execle(const char* path, const char* first, ...) noexcept {
  va_list rest;
  va_start(rest, first);
  const int result =
      with_words(first, rest, [path](Words words, va_list after) { return execve(path, words, va_arg(after, Words)); });
  va_end(rest);
  return result;
}

int fexecve(int file, Words words, Words environment) noexcept {
  warn_if_static_at(file, "", AT_EMPTY_PATH);
  return next_fexecve(file, words, environment);
}

int execveat(int directory, const char* path, Words words, Words environment, int flags) noexcept {
  warn_if_static_at(directory, path, flags);
  return next_execveat(directory, path, words, environment, flags);
}

int posix_spawn(pid_t* child, const char* path, const posix_spawn_file_actions_t* actions,
                const posix_spawnattr_t* attributes, Words words, Words environment) {
  warn_if_static(path);
  return next_posix_spawn(child, path, actions, attributes, words, environment);
}

int posix_spawnp(pid_t* child, const char* name, const posix_spawn_file_actions_t* actions,
                 const posix_spawnattr_t* attributes, Words words, Words environment) {
  warn_if_static_in_path(name);
  return next_posix_spawnp(child, name, actions, attributes, words, environment);
}

}  // extern "C"
#pragma GCC visibility pop
