// A program that reads files and knows nothing of farside: run plainly, or under `farside exec`. With the argument
// `memcpy` it copies out of memory of its own that holds the whole file instead: the least that a read can cost.
//
// Questions, and what is timed:
//   pread FILE BYTES MS   one pread of BYTES, at places spread over the file   -> Timing
//   read FILE BYTES MS    one read of BYTES, from the start to the end and over again   -> Timing
//   first FILE BYTES      each read of BYTES of one pass over the file   -> Timing
//   start PROGRAM TIMES   one start of PROGRAM, to its end   -> Timing
//   scan FILE BYTES       one pass: how many bytes this process was given by system calls meanwhile -> a number
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/harness/timing.h"

namespace farside::bench {
namespace {

/// The file in this program's own memory. Read once, so that no question finds it fresher in the caches than the
/// others.
const std::vector<char>& own_copy_of(const std::string& path) {
  static std::map<std::string, std::vector<char>> copies;
  std::vector<char>& copy = copies[path];
  if (copy.empty()) {
    copy.resize(std::filesystem::file_size(path));
    std::ifstream(path, std::ios::binary).read(copy.data(), static_cast<std::streamsize>(copy.size()));
  }
  return copy;
}

class File {
 public:
  File(const std::string& path, std::size_t bytes, bool by_memcpy)
      : fd_(::open(path.c_str(), O_RDONLY)), buffer_(bytes) {
    struct stat found {};
    if (fd_ < 0 || ::fstat(fd_, &found) != 0) throw std::system_error(errno, std::generic_category(), path);
    pieces_ = static_cast<std::uint64_t>(found.st_size) / bytes;
    if (by_memcpy) own_copy_ = own_copy_of(path).data();
  }
  ~File() { ::close(fd_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  [[nodiscard]] std::uint64_t pieces() const { return pieces_; }

  void pread_anywhere() {
    // A full-period generator over the powers of two: every piece, in an order that no read-ahead predicts.
    place_ = place_ * 5 + 1;
    const std::uint64_t piece = place_ % pieces_;
    if (own_copy_ != nullptr) return copy(piece);
    check(::pread(fd_, buffer_.data(), buffer_.size(), static_cast<off_t>(piece * buffer_.size())));
  }
  void read_next() {
    if (next_++ == pieces_) {
      ::lseek(fd_, 0, SEEK_SET);
      next_ = 1;
    }
    if (own_copy_ != nullptr) return copy(next_ - 1);
    check(::read(fd_, buffer_.data(), buffer_.size()));
  }

 private:
  void copy(std::uint64_t piece) { std::memcpy(buffer_.data(), own_copy_ + piece * buffer_.size(), buffer_.size()); }
  void check(ssize_t got) const {
    if (got != static_cast<ssize_t>(buffer_.size())) throw std::runtime_error("a read came back short");
  }

  int fd_;
  std::vector<char> buffer_;
  const char* own_copy_ = nullptr;  // null: ask the kernel
  std::uint64_t pieces_ = 0;
  std::uint64_t place_ = 0;
  std::uint64_t next_ = 0;
};

Timing first_pass(File& file) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> latencies;
  for (std::uint64_t piece = 0; piece < file.pieces(); ++piece) {
    const Clock::time_point start = Clock::now();
    file.read_next();
    latencies.push_back(Nanoseconds(Clock::now() - start).count());
  }
  return timing_of(std::move(latencies), 0);
}

/// With this process's environment, so that what is preloaded into it is preloaded into `program`.
Timing starts_of(const std::string& program, std::size_t times) {
  using Clock = std::chrono::steady_clock;
  std::string name = program;
  const std::array<char*, 2> arguments{name.data(), nullptr};
  std::vector<double> latencies;
  for (; times != 0; --times) {
    const Clock::time_point start = Clock::now();
    pid_t child = 0;
    if (const int error = ::posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments.data(), environ);
        error != 0)
      throw std::system_error(error, std::generic_category(), program);
    int status = 0;
    if (::waitpid(child, &status, 0) != child || status != 0) throw std::runtime_error(program + " failed");
    latencies.push_back(Nanoseconds(Clock::now() - start).count());
  }
  return timing_of(std::move(latencies), 0);
}

/// What the kernel has given to this process by read and its kin.
std::uint64_t bytes_from_system_calls() {
  std::ifstream io("/proc/self/io");
  std::string label;
  std::uint64_t bytes = 0;
  io >> label >> bytes;  // "rchar: N" is its first line
  return bytes;
}

std::string answer(const std::string& line, bool by_memcpy) {
  std::istringstream words(line);
  std::string what;
  std::string path;
  std::size_t bytes = 0;
  if (!(words >> what >> path >> bytes)) throw std::invalid_argument("no question: \"" + line + "\"");
  double budget_ms = 0;
  words >> budget_ms;
  const std::chrono::duration<double, std::milli> budget(budget_ms);

  if (what == "start") return starts_of(path, bytes).to_line();
  File file(path, bytes, by_memcpy);
  if (what == "first") return first_pass(file).to_line();
  if (what == "scan") {
    const std::uint64_t before = bytes_from_system_calls();
    for (std::uint64_t piece = 0; piece < file.pieces(); ++piece) file.read_next();
    return std::to_string(bytes_from_system_calls() - before);
  }
  const auto run = [&](std::uint64_t operations) {
    for (; operations != 0; --operations) what == "pread" ? file.pread_anywhere() : file.read_next();
  };
  return time_operations(run, budget).to_line();
}

}  // namespace
}  // namespace farside::bench

int main(int argc, char** argv) {
  const bool by_memcpy = argc == 2 && std::string_view(argv[1]) == "memcpy";
  std::cout << "ready" << std::endl;
  for (std::string line; std::getline(std::cin, line);)
    std::cout << farside::bench::answer(line, by_memcpy) << std::endl;
  return 0;
}
