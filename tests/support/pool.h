// pool.h — a pool of real processes with a runtime directory of its own, and the farside command to handle it.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/command.h"

namespace farside::test {

/// Of a test that waits for its disk thousands of times: temporary directories are in memory from now on. In a bare
/// chroot, which may lack /dev/shm, they stay where they are.
struct OnAQuickDisk {
  OnAQuickDisk() {
    if (std::filesystem::is_directory("/dev/shm")) ::setenv("TMPDIR", "/dev/shm", 1);
  }
};

/// A directory for one test, removed with everything in it.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory();

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

/// Tests that start pools. Whatever happens, none is left.
class PoolTest : public ::testing::Test {
 protected:
  PoolTest();

  /// Runs `farside ARGUMENTS...` to its end.
  CommandEnd farside(const std::vector<std::string>& arguments);
  /// Starts a pool with `farside up ARGUMENTS...`, behind `wrapper` ("prlimit", "--memlock=0").
  CommandEnd up(const std::vector<std::string>& arguments, std::vector<std::string> wrapper = {});
  /// The same beside the pool that was started before, whose processes may live.
  CommandEnd up_again(const std::vector<std::string>& arguments);
  /// What `farside status --json` prints.
  nlohmann::json status();
  /// Of the nodes, by rank.
  std::vector<pid_t> node_processes();
  pid_t supervisor_process();
  /// By SIGSTOP; returns when all of its threads stand still, of which the signal's own return says nothing.
  static void stop(pid_t process);
  /// Every process of the last pool started, and of those that were started again beside it.
  [[nodiscard]] std::vector<pid_t> pool_processes() const;

  [[nodiscard]] std::filesystem::path runtime_dir() const { return directory_.path() / "run"; }
  [[nodiscard]] std::filesystem::path files_dir() const { return directory_.path() / "files"; }
  /// What a log in the runtime directory has.
  [[nodiscard]] std::string log(const std::string& name = "pool.log") const;
  /// But logs, which outlive their pool.
  [[nodiscard]] std::vector<std::string> runtime_files() const;

 private:
  TemporaryDirectory directory_;
  std::vector<std::unique_ptr<Command>> pools_;  // each kills what carries its mark: the supervisor and the nodes
};

}  // namespace farside::test
