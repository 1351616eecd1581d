#include "bench/harness/contender.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "farside/base/error.h"

namespace farside::bench {

namespace {

struct Pipe {
  Fd read;
  Fd write;
};

Pipe make_pipe() {
  int ends[2];  // NOLINT(modernize-avoid-c-arrays): pipe2 wants it
  if (::pipe2(ends, O_CLOEXEC) != 0) throw errno_error("make a pipe", "for a benchmark");
  return {Fd(ends[0]), Fd(ends[1])};
}

/// Becomes the program. Only what is safe after fork.
[[noreturn]] void become(char* const* arguments, const Fd& input, const Fd& output, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // mpirun ends its ranks on it
  if (::getppid() != parent) ::_exit(1);
  ::setpgid(0, 0);
  ::dup2(input.get(), STDIN_FILENO);
  ::dup2(output.get(), STDOUT_FILENO);
  ::execvp(arguments[0], arguments);
  ::_exit(127);
}

bool ended_within(pid_t pid, std::chrono::milliseconds time) {
  const auto give_up = std::chrono::steady_clock::now() + time;
  while (::waitpid(pid, nullptr, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace

Child::~Child() {
  using std::chrono::seconds;
  const auto end_by = [this](int signal) {
    ::kill(-pid_, signal);
    return ended_within(pid_, seconds(3));
  };
  static_cast<void>(ended_within(pid_, seconds(3)) || end_by(SIGTERM) || end_by(SIGKILL));
}

struct Contender::Started {
  pid_t pid;
  Fd input;
  Fd output;

  static Started start(const std::string& name, const Program& program) {
    Pipe input = make_pipe();
    Pipe output = make_pipe();
    std::vector<std::string> words{"env"};
    for (const auto& [variable, value] : program.environment) words.push_back(fmt::format("{}={}", variable, value));
    words.insert(words.end(), program.command.begin(), program.command.end());
    std::vector<char*> arguments;
    arguments.reserve(words.size() + 1);
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);

    const pid_t parent = ::getpid();
    const pid_t pid = ::fork();
    if (pid < 0) throw errno_error("start", name);
    if (pid == 0) become(arguments.data(), input.read, output.write, parent);
    return {pid, std::move(input.write), std::move(output.read)};
  }
};

Contender::Contender(const std::string& name, const Program& program)
    : Contender(name, program.timeout, Started::start(name, program)) {
  ::signal(SIGPIPE, SIG_IGN);  // a contender that ended is an Error of ask, not the end of the benchmark
  if (const std::string line = read_line("start"); line != "ready") {
    throw Error({"start", name_, "it said \"" + line + "\"", "look at what it wrote above"});
  }
}

Contender::Contender(std::string name, std::chrono::seconds timeout, Started started)
    : name_(std::move(name)),
      timeout_(timeout),
      child_(started.pid),
      to_(std::move(started.input)),
      from_(std::move(started.output)) {}

void Contender::put(const std::string& question) {
  const std::string line = question + "\n";
  if (::write(to_.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    throw errno_error("ask for \"" + question + "\"", name_);
  }
}

std::string Contender::read_line(const std::string& tried) {
  for (;;) {
    if (const std::size_t end = received_.find('\n'); end != std::string::npos) {
      std::string line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return line;
    }
    pollfd readable{from_.get(), POLLIN, 0};
    if (::poll(&readable, 1, static_cast<int>(std::chrono::milliseconds(timeout_).count())) <= 0) {
      throw Error({tried, name_, fmt::format("it said nothing for {} s", timeout_.count()),
                   "see whether the machine is overloaded"});
    }
    char buffer[4096];  // NOLINT(modernize-avoid-c-arrays)
    const ssize_t got = ::read(from_.get(), buffer, sizeof buffer);
    if (got < 0 && errno != EINTR) throw errno_error(tried, name_);
    if (got == 0) throw Error({tried, name_, "it ended", "look at what it wrote above"});
    if (got > 0) received_.append(buffer, static_cast<std::size_t>(got));
  }
}

std::filesystem::path sibling_program(const std::string& name) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
}

bool installed(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (::access(folder.append("/").append(program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

}  // namespace farside::bench
