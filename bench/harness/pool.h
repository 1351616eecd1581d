// pool.h — a pool of its own for a measurement, and programs that read through it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

#include "bench/harness/contender.h"

namespace farside::bench {

/// A folder for a benchmark's files, removed with everything in it.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

  /// A file of `bytes` that are different everywhere.
  [[nodiscard]] std::filesystem::path make_file(const std::string& name, std::uint64_t bytes) const;

 private:
  std::filesystem::path path_;
};

/// Waits until files that were made before this call may be cached: what was changed lately is not.
void let_files_age();

struct PoolOptions {
  unsigned nodes = 1;
  std::string roles;  ///< what they lend their memory for, as `farside up` is told: "--groups 1 --cache 64M"
  std::map<std::string, std::string> environment = {};
  std::vector<std::string> inside = {};  ///< the words that run a command on its host (Fabric::on_lender)
};

/// Up when made, down when it goes. Throws Error when it cannot be.
class Pool {
 public:
  explicit Pool(const PoolOptions& options);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// `program`, reading what lies under `folder` through `node`.
  [[nodiscard]] Contender::Program exec(unsigned node, const std::filesystem::path& folder,
                                        const std::string& program) const;

  /// Of a program that uses the pool.
  [[nodiscard]] const std::map<std::string, std::string>& environment() const noexcept { return environment_; }

  /// What `farside status --json` prints.
  [[nodiscard]] std::string status() const;

  /// What the kernel has given to the nodes by read and its kin, so far: the files that they read, and little else.
  [[nodiscard]] std::uint64_t bytes_from_system_calls() const;

 private:
  [[nodiscard]] std::string farside(const std::string& arguments) const;

  Folder runtime_;
  std::map<std::string, std::string> environment_;
  std::string inside_;
  std::vector<pid_t> processes_;
};

}  // namespace farside::bench
