// farside kv shell: the commands of the Redis protocol, typed by a person or out of a script.

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <unistd.h>

#include "farside/kv/client.h"

#include "cli/commands.h"
#include "cli/kv/line_editor.h"
#include "cli/kv/session.h"
#include "kv/resp/client.h"
#include "kv/resp/reply_text.h"

namespace farside::cli {

namespace {

class Shell {
 public:
  explicit Shell(kv::Session& session) : session_(session) { begin(); }

  /// False after QUIT.
  bool obey(const std::string& line) {
    input_ += line + "\r\n";
    std::string output;
    bool open = client_->obey(input_, output);
    if (output.starts_with(kBroken)) {  // quotes that are not closed: the shell does not disconnect for that
      begin();
      open = true;
    }
    for (std::string_view replies = output; !replies.empty();) {
      failed_ = failed_ || replies.starts_with('-');
      std::cout << kv::take_reply_text(replies) << '\n';
    }
    std::cout.flush();
    return open;
  }
  [[nodiscard]] bool failed() const noexcept { return failed_; }

  /// The first word is a command, the others are keys.
  std::vector<std::string> complete(std::string_view line) {
    const std::string_view word = line.substr(line.rfind(' ') + 1);
    std::vector<std::string> candidates = word.size() == line.size() ? commands(word) : keys(word);
    std::ranges::sort(candidates);
    return candidates;
  }

 private:
  static constexpr std::string_view kBroken = "-ERR Protocol error";

  void begin() {
    input_.clear();
    client_.emplace(session_, status_, 1, "shell");
  }

  static std::vector<std::string> commands(std::string_view word) {
    std::vector<std::string> names;
    for (const kv::Command* command : kv::all_commands()) {
      if (command->name.starts_with(word)) names.emplace_back(command->name);
    }
    return names;
  }

  // Limits the keys and the calls: a user wants to read no more, and waits no longer.
  std::vector<std::string> keys(std::string_view word) {
    constexpr std::size_t kMaxKeys = 100;
    constexpr int kMaxCalls = 20;
    constexpr std::size_t kAtOnce = 1000;
    std::vector<std::string> found;
    std::uint64_t cursor = 0;
    for (int call = 0; call < kMaxCalls && found.size() < kMaxKeys; ++call) {
      const auto scanned = session_.scan(cursor, word, kAtOnce);
      if (!scanned.done()) break;
      found.insert(found.end(), scanned.value.keys.begin(), scanned.value.keys.end());
      cursor = scanned.value.next;
      if (cursor == 0) break;
    }
    return found;
  }

  kv::Session& session_;
  kv::RespStatus status_{kv::RespSettings{}};
  std::optional<kv::RespClient> client_;
  std::string input_;  // what is not a whole request yet
  bool failed_ = false;
};

std::string history_file() {
  const char* home = ::secure_getenv("HOME");
  return home == nullptr ? "" : std::string(home) + "/.farside_history";
}

int run_shell(kv::Session& session) {
  Shell shell(session);
  if (::isatty(STDIN_FILENO) == 0) {
    for (std::string line; std::getline(std::cin, line) && shell.obey(line);) {
    }
    return shell.failed() ? 1 : 0;
  }
  LineEditor editor("farside> ", history_file(), [&shell](std::string_view line) { return shell.complete(line); });
  while (const auto line = editor.read()) {
    if (!shell.obey(*line)) break;
  }
  return 0;
}

}  // namespace

void add_kv_shell(CLI::App& kv, Action& chosen) {
  const auto arguments = std::make_shared<KvArguments>();
  CLI::App* command = kv.add_subcommand("shell", "Type commands of Redis's, with history and completion");
  arguments->add_to(*command);
  command->footer(
      "Ends with QUIT or the end of its input. When that is no terminal, it exits with 1 if a command failed.\n\n"
      "Example:\n  echo 'MSET from 9 to 1' | farside kv shell");
  command->callback([arguments, &chosen] {
    chosen = [arguments] {
      kv::Client client(arguments->client());
      return run_shell(*client.open_session(arguments->session()));
    };
  });
}

}  // namespace farside::cli
