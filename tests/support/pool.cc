#include "tests/support/pool.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <system_error>

#include <unistd.h>

#include "tests/support/shared.h"

namespace farside::test {

TemporaryDirectory::TemporaryDirectory() {
  std::string pattern = std::filesystem::temp_directory_path() / "farside-test-XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr) throw std::system_error(errno, std::generic_category(), pattern);
  path_ = pattern;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

PoolTest::PoolTest() {
  std::filesystem::create_directory(files_dir());
  ::setenv("FARSIDE_RUNTIME_DIR", runtime_dir().c_str(), 1);
}

CommandEnd PoolTest::farside(const std::vector<std::string>& arguments) {
  std::vector<std::string> command{FARSIDE_COMMAND};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return Command(command).wait();
}

CommandEnd PoolTest::up(const std::vector<std::string>& arguments, std::vector<std::string> wrapper) {
  wrapper.insert(wrapper.end(), {FARSIDE_COMMAND, "up"});
  wrapper.insert(wrapper.end(), arguments.begin(), arguments.end());
  pools_.clear();
  pools_.push_back(std::make_unique<Command>(wrapper));
  CommandEnd end = pools_.back()->wait();
  std::cerr << end.err;  // shows why a pool did not start
  return end;
}

CommandEnd PoolTest::up_again(const std::vector<std::string>& arguments) {
  std::vector<std::string> command{FARSIDE_COMMAND, "up"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  pools_.push_back(std::make_unique<Command>(command));
  CommandEnd end = pools_.back()->wait();
  std::cerr << end.err;
  return end;
}

nlohmann::json PoolTest::status() {
  nlohmann::json now;
  // A node of a busy machine may not answer in time. Not asked for ever: one that a test has stopped never does.
  for (int attempt = 0; attempt < 5; ++attempt) {
    const CommandEnd end = farside({"status", "--json"});
    EXPECT_LE(end.code(), 1) << end.err;  // 1: it shows what is wrong
    now = nlohmann::json::parse(end.out);
    const auto silent = [](const auto& node) { return node.at("state") == "silent"; };
    if (std::ranges::none_of(now.at("nodes"), silent)) break;
  }
  return now;
}

std::vector<pid_t> PoolTest::node_processes() {
  std::vector<pid_t> processes;
  const nlohmann::json now = status();
  for (const auto& node : now.at("nodes")) processes.push_back(node.at("process"));
  return processes;
}

pid_t PoolTest::supervisor_process() { return status().at("supervisor"); }

void PoolTest::stop(pid_t process) {
  ASSERT_EQ(::kill(process, SIGSTOP), 0);
  const auto stands_still = [](const std::filesystem::directory_entry& thread) {
    std::ifstream file(thread.path() / "stat");
    const std::string stat(std::istreambuf_iterator<char>(file), {});
    return stat.substr(stat.rfind(')') + 1).starts_with(" T");
  };
  const std::filesystem::path threads = "/proc/" + std::to_string(process) + "/task";
  ASSERT_TRUE(
      eventually([&] { return std::ranges::all_of(std::filesystem::directory_iterator(threads), stands_still); }));
}

std::vector<pid_t> PoolTest::pool_processes() const {
  std::vector<pid_t> all;
  for (const auto& pool : pools_) {
    const std::vector<pid_t> processes = pool->processes();
    all.insert(all.end(), processes.begin(), processes.end());
  }
  return all;
}

std::string PoolTest::log(const std::string& name) const {
  std::ifstream file(runtime_dir() / name);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> PoolTest::runtime_files() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(runtime_dir())) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("pool.log")) names.push_back(name);
  }
  return names;
}

}  // namespace farside::test
