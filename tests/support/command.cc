#include "tests/support/command.h"

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/reduced.h"
#include "tests/support/shared.h"

namespace farside::test {

namespace {

Fd memory_file(const std::string& content) {
  Fd file(::memfd_create("test", MFD_CLOEXEC));
  if (!file || ::pwrite(file.get(), content.data(), content.size(), 0) != static_cast<ssize_t>(content.size())) {
    throw std::system_error(errno, std::generic_category(), "memfd_create");
  }
  return file;
}

std::string content_of(const Fd& file) {
  std::string content;
  std::array<char, 4096> chunk;
  for (ssize_t count = 0;
       (count = ::pread(file.get(), chunk.data(), chunk.size(), static_cast<off_t>(content.size()))) > 0;) {
    content.append(chunk.data(), static_cast<std::size_t>(count));
  }
  return content;
}

std::string environment_of(const std::filesystem::path& process) {
  std::ifstream file(process / "environ");
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

int CommandEnd::code() const { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

Command::Command(const std::vector<std::string>& command, const std::string& input)
    : input_(memory_file(input)), out_(memory_file("")), err_(memory_file("")) {
  static int count = 0;
  mark_ = "FARSIDE_TEST_MARK=" + std::to_string(::getpid()) + "." + std::to_string(++count);
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  std::vector<char*> environment{mark_.data()};
  for (char** entry = ::environ; *entry != nullptr; ++entry) environment.push_back(*entry);
  environment.push_back(nullptr);

  // Of a memory file, only appending is whole among several writers.
  for (const Fd* file : {&out_, &err_}) ::fcntl(file->get(), F_SETFL, O_APPEND);
  pid_ = ::fork();
  if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid_ == 0) {
    ::dup2(input_.get(), STDIN_FILENO);
    ::dup2(out_.get(), STDOUT_FILENO);
    ::dup2(err_.get(), STDERR_FILENO);
    ::execvpe(arguments.front(), arguments.data(), environment.data());
    ::_exit(127);
  }
}

Command::~Command() {
  for (const pid_t pid : processes()) ::kill(pid, SIGKILL);
  if (pid_ != 0) ::waitpid(pid_, nullptr, 0);
}

std::string Command::out() const { return content_of(out_); }

std::vector<pid_t> Command::processes() const {
  std::vector<pid_t> pids;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (environment_of(entry.path()).find(mark_ + '\0') != std::string::npos) pids.push_back(std::stoi(name));
  }
  return pids;
}

CommandEnd Command::wait() {
  int status = 0;
  if (!eventually([&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; }, extended(std::chrono::minutes(4)))) {
    ADD_FAILURE() << "the command did not end; it printed: " << content_of(out_) << content_of(err_);
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, &status, 0);
  }
  pid_ = 0;
  return {status, content_of(out_), content_of(err_)};
}

CommandEnd run(const std::vector<std::string>& command, const std::string& input) {
  Command running(command, input);
  CommandEnd end = running.wait();
  EXPECT_TRUE(eventually([&] { return running.processes().empty(); }, std::chrono::seconds(10)))
      << "processes were left behind";
  return end;
}

}  // namespace farside::test
