// A server of the Redis protocol that clients drive (resp_load.h): `farside kv serve` in front of a pool, or Redis
// without persistence. Argument: how many nodes the pool has, or "redis".
//
// A question is one of their tests, how many requests follow each other without waiting, and how many there are; or
// "likes": how fast examples/likes.cc is in the pool. Each answer is how many a second.
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/harness/contend.h"
#include "bench/harness/contender.h"
#include "bench/kv/free_port.h"
#include "bench/kv/resp_load.h"

namespace farside::bench {
namespace {

constexpr int kLikes = 4 * 200;  // of examples/likes.cc

std::string farside() { return sibling_program("../../bin/farside"); }

/// Without input and output.
pid_t begin(const std::vector<std::string>& command) {
  std::vector<char*> words;
  words.reserve(command.size() + 1);
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) throw std::runtime_error("no process for " + command.front());
  if (pid != 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(1);
  const int nothing = ::open("/dev/null", O_RDWR);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(nothing, STDOUT_FILENO);
  ::execvp(words.front(), words.data());
  ::_exit(127);
}

void run_to_its_end(const std::vector<std::string>& command) {
  int status = 0;
  const pid_t pid = begin(command);
  if (::waitpid(pid, &status, 0) != pid || status != 0) throw std::runtime_error(command.front() + " failed");
}

/// In a place of its own.
class Pool {
 public:
  explicit Pool(const std::string& nodes) {
    ::setenv("XDG_RUNTIME_DIR", place_.c_str(), 1);
    run_to_its_end({farside(), "up", "-n", nodes, "--cache", "64M", "--kv", "512M"});
  }
  ~Pool() {
    try {
      run_to_its_end({farside(), "down"});
    } catch (const std::exception& error) {
      std::cerr << error.what() << '\n';
    }
    std::error_code ignored;
    std::filesystem::remove_all(place_, ignored);
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

 private:
  static std::string make_place() {
    std::string name = std::filesystem::temp_directory_path() / "farside-bench-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no directory for a pool");
    return name;
  }
  const std::string place_ = make_place();
};

class ServerProcess {
 public:
  explicit ServerProcess(const std::vector<std::string>& command) : pid_(begin(command)) {}
  ~ServerProcess() {
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
  }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

 private:
  const pid_t pid_;
};

double drive(RespLoad& load, const std::string& question) {
  std::istringstream words(question);
  std::string test;
  std::size_t pipelined = 0;
  std::size_t requests = 0;
  if (!(words >> test >> pipelined >> requests)) throw std::runtime_error("no question: " + question);
  return load.drive(test, pipelined, requests);
}

double like() {
  const auto start = std::chrono::steady_clock::now();
  run_to_its_end({sibling_program("../../bin/example_likes")});
  return kLikes / std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void run(const std::string& server_or_nodes) {
  const std::string port = std::to_string(free_port());
  const auto pool = server_or_nodes == "redis" ? nullptr : std::make_unique<Pool>(server_or_nodes);
  const std::vector<std::string> serve =
      pool != nullptr ? std::vector<std::string>{farside(), "kv", "serve", "--listen", "127.0.0.1:" + port}
                      : std::vector<std::string>{"redis-server", "--port", port,           "--bind", "127.0.0.1",
                                                 "--save",       "",       "--appendonly", "no"};
  const ServerProcess server(serve);
  RespLoad load(std::stoi(port));
  std::cout << "ready" << std::endl;
  for (std::string question; std::getline(std::cin, question);) {
    std::cout << (question == "likes" ? like() : drive(load, question)) << std::endl;
  }
}

}  // namespace
}  // namespace farside::bench

int main(int argc, char** argv) {
  return farside::bench::contend([&] {
    if (argc != 2) throw std::invalid_argument("usage: kv-contender-resp NODES|redis");
    farside::bench::run(argv[1]);
  });
}
