#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "farside/base/error.h"
#include "farside/base/fd.h"
#include "farside/base/log.h"

#include "base/program_error.h"
#include "base/program_file.h"
#include "cli/commands.h"
#include "cli/preloaded.h"
#include "net/runtime_dir.h"
#include "node/pool/pool_directory.h"
#include "node/socket_client.h"
#include "node/time_limits.h"

namespace farside::cli {

namespace {

namespace fs = std::filesystem;

struct ExecArguments {
  std::optional<team::Rank> node;
  std::vector<std::string> under{"."};
  std::vector<std::string> command;
};

// Each with a slash at its end, one after the other: what the preload library expects in FARSIDE_UNDER. A canonical
// path holds no two slashes in a row, so any name survives.
std::string directories(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) {
    std::error_code error;
    const fs::path path = fs::canonical(name, error);
    if (!error && !fs::is_directory(path)) error = std::make_error_code(std::errc::not_a_directory);
    if (error) throw UsageError({"take files from", name, error.message(), "give --under a directory"});
    all += path / "";
  }
  return all;
}

// Returns the socket of node `wanted`, or of the first node on this machine. Returns nothing, and warns, when the node
// does not answer there. Throws UsageError when the pool has no such node on this machine.
std::optional<std::string> reach_node(std::optional<team::Rank> wanted) {
  const node::PoolDirectory pool(fs::absolute(net::runtime_dir()));
  team::Rank rank = wanted.value_or(0);
  if (const auto record = pool.read_record()) {
    if (!wanted && !record->nodes.empty()) rank = record->nodes.front().rank;
    const auto is_meant = [rank](const node::PoolRecord::Node& node) { return node.rank == rank; };
    if (std::ranges::none_of(record->nodes, is_meant)) {
      throw UsageError({"read through node", std::to_string(rank), "the pool has none of that number on this machine",
                        "see farside status"});
    }
  }
  std::string socket = pool.node_socket(rank);
  if (node::connect_to_node(socket, node::time_limits::kStatus)) return socket;
  log::warn(errno_error("reach the node at", socket, "the program reads from the file system; farside up starts a pool")
                .what());
  return std::nullopt;
}

// Returns the path at which execvp finds the program; empty: execvp does not find it.
fs::path path_of_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* const variable = std::getenv("PATH");
  std::istringstream directories(variable != nullptr ? variable : "/bin:/usr/bin");
  for (std::string directory; std::getline(directories, directory, ':');) {
    fs::path path = fs::path(directory.empty() ? "." : directory) / name;
    if (::access(path.c_str(), X_OK) == 0) return path;
  }
  return {};
}

bool is_static(const fs::path& program) {
  const Fd file(::open(program.c_str(), O_RDONLY | O_CLOEXEC));
  return file && is_linked_statically([&file](std::uint64_t offset, void* into, std::size_t bytes) {
           return ::pread(file.get(), into, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
         });
}

void warn_of_static(const std::string& program) {
  if (!is_static(path_of_program(program))) return;
  log::warn(program + " is linked statically, so nothing can be preloaded into it: it reads from the file system");
}

void prepare_environment(const std::string& socket, const std::string& under) {
  ::setenv("LD_PRELOAD", preload_before_others(library_beside_command("libfarside-preload.so")).c_str(), 1);
  ::setenv("FARSIDE_NODE_SOCKET", socket.c_str(), 1);
  ::setenv("FARSIDE_UNDER", under.c_str(), 1);
}

[[noreturn]] void become(const std::vector<std::string>& command) {
  std::vector<char*> words;
  words.reserve(command.size() + 1);
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  ::execvp(words.front(), words.data());
  throw ProgramError(command.front(), errno);
}

}  // namespace

void add_exec(CLI::App& app, Action& chosen) {
  const auto arguments = std::make_shared<ExecArguments>();
  CLI::App* command = app.add_subcommand("exec", "Run a program whose file reads come out of the pool's memory");
  command->add_option("--under", arguments->under, "Take the files below this directory from the pool; may be repeated")
      ->type_name("DIR")
      ->allow_extra_args(false)
      ->capture_default_str();
  command->add_option("--node", arguments->node, "The node to read through, instead of the first on this machine")
      ->type_name("RANK");
  command->add_option("command", arguments->command, "The program and its arguments, after --")
      ->required()
      ->type_name("PROGRAM [ARGUMENT...]");
  command->footer(
      "The program and those that it starts are not changed and do what they always do; only reads of files that were\n"
      "opened for reading are answered from memory. Without a pool they are read from the file system, with a "
      "warning.\n"
      "Exits with the program's code; 127 when there is no such program, 126 when it cannot be executed.\n\n"
      "Example:\n  farside exec --under /data -- grep -r needle /data/logs");
  command->callback([arguments, &chosen] {
    chosen = [arguments]() -> int {
      const std::string under = directories(arguments->under);
      try {
        if (const auto socket = reach_node(arguments->node)) {
          prepare_environment(*socket, under);
          warn_of_static(arguments->command.front());
        }
      } catch (const UsageError&) {
        throw;
      } catch (const std::exception& error) {
        log::warn(std::string(error.what()) + "; the program reads from the file system");
      }
      become(arguments->command);
    };
  });
}

}  // namespace farside::cli
