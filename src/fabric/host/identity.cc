// Which process and which host this is. Stands alone: it is read once, from files of the kernel.
#include <fstream>
#include <string>

#include <sys/stat.h>
#include <unistd.h>

#include "farside/base/error.h"
#include "farside/fabric/fabric.h"

namespace farside {

namespace {

std::string namespace_of(const char* kind) {
  const std::string path = std::string("/proc/self/ns/") + kind;
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) throw errno_error("look at", path, "mount /proc");
  return std::to_string(status.st_ino);
}

// Kernels before 5.6 have none.
std::string time_namespace() { return ::access("/proc/self/ns/time", F_OK) == 0 ? namespace_of("time") : "none"; }

}  // namespace

// Direct access opens /proc/<pid>/fd/<n> of the peer. That takes the same kernel, pids that mean the same, and the
// same user; and whether a peer still runs is judged by when it started, which reads otherwise in another time
// namespace. The network namespace is part of it so that containers with addresses of their own count as hosts.
std::string host_identity() {
  const char* const path = "/proc/sys/kernel/random/boot_id";
  std::ifstream file(path);
  std::string boot;
  if (!(file >> boot)) throw Error({"read", path, "it is not readable", "mount /proc"});
  return boot + " pid:" + namespace_of("pid") + " user:" + namespace_of("user") + " net:" + namespace_of("net") +
         " time:" + time_namespace() + " uid:" + std::to_string(::geteuid());
}

}  // namespace farside
