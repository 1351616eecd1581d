#include "bench/harness/pool.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>

#include "farside/base/error.h"

namespace farside::bench {

namespace {

std::filesystem::path farside_command() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path().parent_path() / "bin" / "farside";
}

std::uint64_t bytes_read_by(pid_t process) {
  std::ifstream io(fmt::format("/proc/{}/io", process));
  std::string label;
  std::uint64_t bytes = 0;
  if (!(io >> label >> bytes)) throw Error({"count the reads of process", std::to_string(process), "it is gone", ""});
  return bytes;
}

}  // namespace

Folder::Folder() {
  std::string pattern = std::filesystem::temp_directory_path() / "farside-bench-XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr) throw errno_error("make the folder", pattern, "set TMPDIR");
  path_ = pattern;
}

Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::filesystem::path Folder::make_file(const std::string& name, std::uint64_t bytes) const {
  std::mt19937_64 random(bytes);
  std::vector<std::uint64_t> piece((1 << 20) / sizeof(std::uint64_t));
  std::ofstream file(path_ / name, std::ios::binary);
  for (std::uint64_t left = bytes; left != 0;) {
    for (std::uint64_t& word : piece) word = random();
    const std::uint64_t now = std::min<std::uint64_t>(left, 1 << 20);
    file.write(reinterpret_cast<const char*>(piece.data()), static_cast<std::streamsize>(now));
    left -= now;
  }
  if (!file.flush()) throw errno_error("write", path_ / name, "make room or set TMPDIR");
  return path_ / name;
}

void let_files_age() { std::this_thread::sleep_for(std::chrono::milliseconds(2500)); }

Pool::Pool(const PoolOptions& options)
    : environment_(options.environment), inside_(fmt::format("{}", fmt::join(options.inside, " "))) {
  environment_["FARSIDE_RUNTIME_DIR"] = runtime_.path();
  static_cast<void>(farside(fmt::format("up -n {} {}", options.nodes, options.roles)));
  const auto pool = nlohmann::json::parse(status());  // named: in the range-for it would be gone before the first node
  for (const auto& node : pool.at("nodes")) processes_.push_back(node.at("process"));
}

Pool::~Pool() {
  try {
    static_cast<void>(farside("down"));
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
}

/// Runs `farside ARGUMENTS` to its end; returns its standard output. Throws Error when it fails.
std::string Pool::farside(const std::string& arguments) const {
  std::string line = inside_ + " env";
  for (const auto& [variable, value] : environment_) line += fmt::format(" {}={}", variable, value);
  line += fmt::format(" {} {}", farside_command().string(), arguments);
  std::FILE* const pipe = ::popen(line.c_str(), "r");
  if (pipe == nullptr) throw errno_error("run", line);
  std::string output;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) output += static_cast<char>(c);
  if (const int status = ::pclose(pipe); status != 0) {
    throw Error({"run", line, fmt::format("it exited with {}", WEXITSTATUS(status)), "look at what it wrote above"});
  }
  return output;
}

// It ends with 1 when something is degraded, and shows it all the same.
std::string Pool::status() const { return farside("status --json || test $? -eq 1"); }

Contender::Program Pool::exec(unsigned node, const std::filesystem::path& folder, const std::string& program) const {
  return {
      {farside_command(), "exec", "--node", std::to_string(node), "--under", folder, "--", sibling_program(program)},
      environment_};
}

std::uint64_t Pool::bytes_from_system_calls() const {
  std::uint64_t sum = 0;
  for (const pid_t process : processes_) sum += bytes_read_by(process);
  return sum;
}

}  // namespace farside::bench
