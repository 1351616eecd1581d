#include "process.h"

#include <atomic>
#include <cstdlib>
#include <cstring>

#include <pthread.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "descriptors.h"
#include "mounts.h"
#include "node_client.h"
#include "stdio_reads.h"
#include "system_call.h"

namespace farside::cache_preload::process {

namespace {

// Directories, each with a slash at its end, one after the other: a slash that follows a slash begins the next one.
// Canonical paths hold no two slashes in a row, so this carries any name.
constinit const char* directories = nullptr;
constinit std::atomic<bool> active{false};
constinit std::atomic<long> id{0};
constinit struct stat64 standard_error {};

void remember_process() { id.store(system_call(SYS_getpid), std::memory_order_relaxed); }

void after_fork() {
  remember_process();
  forget_all_descriptors();
  node::forget_connections();
  mounts::after_fork();
}

[[gnu::constructor]] void start() {
  const char* const socket = secure_getenv("FARSIDE_NODE_SOCKET");
  const char* const under = secure_getenv("FARSIDE_UNDER");
  if (socket == nullptr || under == nullptr) return;
  directories = strdup(under);  // programs write over their environment
  if (directories == nullptr) return;
  node::name(socket);
  remember_process();
  system_call(SYS_fstat, STDERR_FILENO, &standard_error);
  if (pthread_atfork(nullptr, nullptr, after_fork) != 0) return;
  watch_stdio();
  active.store(true, std::memory_order_release);
}

}  // namespace

bool is_active() { return active.load(std::memory_order_acquire); }

bool is_ours() { return system_call(SYS_getpid) == id.load(std::memory_order_relaxed); }

bool is_under(const char* path) {
  const char* directory = directories;
  while (*directory != '\0') {
    const char* end = directory;
    while (*end != '\0' && (end[0] != '/' || (end[1] != '/' && end[1] != '\0'))) ++end;
    if (*end == '\0') return false;
    ++end;
    if (std::strncmp(path, directory, static_cast<std::size_t>(end - directory)) == 0) return true;
    directory = end;
  }
  return false;
}

void warn(const char* what, const char* on, int error) {
  struct stat64 now {};
  if (system_call(SYS_fstat, STDERR_FILENO, &now) != 0) return;
  if (now.st_dev != standard_error.st_dev || now.st_ino != standard_error.st_ino) return;
  const char* const why = strerrordesc_np(error);
  const char* const words[] = {"farside: ", what, " ", on, ": ", why, "; files are read from the file system\n"};
  iovec parts[std::size(words)];
  for (std::size_t i = 0; i < std::size(words); ++i) parts[i] = {const_cast<char*>(words[i]), std::strlen(words[i])};
  system_call(SYS_writev, STDERR_FILENO, parts, std::size(words));
}

}  // namespace farside::cache_preload::process
