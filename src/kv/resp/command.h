// command.h — what a command is: a row of a table.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "base/assert.h"
#include "kv/resp/reply.h"
#include "kv/resp/unit_of_work.h"

namespace farside::kv {

class RespClient;

/// A command as it was called. words[0] is its name.
struct Call {
  std::span<const std::string_view> words;
  RespReply& reply;
  UnitOfWork& unit;
  Session& session;
  RespClient& client;
};

/// A command that others stand in front of: GETNAME, of CLIENT.
struct Subcommand {
  std::string_view name;  ///< in lower case
  int arity;              ///< words, both names included; negative: at least so many
  void (*run)(Call& call);
  std::string_view arguments{};  ///< for people
  std::string_view help{};
};

[[nodiscard]] constexpr bool allows_words(int arity, std::size_t words) {
  return arity < 0 ? words >= static_cast<std::size_t>(-arity) : words == static_cast<std::size_t>(arity);
}

struct Command {
  enum Flag : std::uint8_t {
    kReadOnly = 1,  ///< never writes
    kWrite = 2,
    kNoAuth = 4,      ///< without the password
    kAtOnce = 8,      ///< not queued after MULTI
    kNoMulti = 16,    ///< refused after MULTI
    kEndsMulti = 32,  ///< also when it is refused
    kAllServers = 64  ///< it asks all
  };

  std::string_view name;  ///< in lower case
  int arity;              ///< words, the name included; negative: at least so many
  std::uint8_t flags;
  /// May be called again before its writes are made: it changes the unit of work and the reply alone. It may look for
  /// the keys that first_key, last_key and key_step name, and for none when it is called blind.
  void (*run)(Call& call);
  int first_key = 0;  ///< 0: it has none
  int last_key = 0;   ///< negative: counted from the end, -1 is the last word
  int key_step = 1;
  std::size_t blind_words =
      0;  ///< called with at most so many words, it is blind: it writes keys without looking at them
  std::span<const Subcommand> subcommands{};

  [[nodiscard]] bool has(Flag flag) const { return (flags & flag) != 0; }
  template <class Use>
  void for_each_key(std::span<const std::string_view> words, const Use& use) const {
    if (first_key == 0) return;
    const auto count = static_cast<int>(words.size());
    const int last = last_key < 0 ? count + last_key : last_key;
    assert_that(last < count, "a command that is not wrong has a word for each key");
    for (int at = first_key; at <= last; at += key_step) use(words[static_cast<std::size_t>(at)]);
  }
};

inline constexpr std::size_t kAlwaysBlind = std::numeric_limits<std::size_t>::max();

/// In whatever case the name is. Null: there is none.
[[nodiscard]] const Command* find_command(std::string_view name);

// The families.
[[nodiscard]] std::span<const Command> string_commands();
[[nodiscard]] std::span<const Command> counter_commands();
[[nodiscard]] std::span<const Command> key_commands();
[[nodiscard]] std::span<const Command> expiry_commands();
[[nodiscard]] std::span<const Command> connection_commands();
[[nodiscard]] std::span<const Command> server_commands();
[[nodiscard]] std::span<const Command> transaction_commands();

/// All of them, by name.
[[nodiscard]] std::span<const Command* const> all_commands();

/// Whose commands and words these are.
inline constexpr std::string_view kRedisVersion = "7.0.15";

// Refusals that several commands have.
inline constexpr std::string_view kNotAnInteger = "ERR value is not an integer or out of range";
inline constexpr std::string_view kSyntaxError = "ERR syntax error";
inline constexpr std::string_view kOutOfMemory = "OOM command not allowed when used memory > 'maxmemory'.";
inline constexpr std::string_view kUnwritable =
    "MISCONF Errors writing to the journal: a node's disk is full or has failed, or its standby does not keep up; "
    "nothing was written. See farside status.";
inline constexpr std::string_view kTooFewCopies = "NOREPLICAS Not enough good replicas to write.";
inline constexpr std::string_view kNoAnswer = "ERR the store did not answer in time";
inline constexpr std::string_view kServerLost = "ERR a server of the store is lost; see farside status";
inline constexpr std::string_view kUnknown =
    "ERR the store did not answer in time: this was or will be written, as a whole, or not at all";
inline constexpr std::string_view kTooLarge = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
inline constexpr std::string_view kContended = "ERR other clients write the key all the time";

/// The error for an outcome other than done.
[[nodiscard]] std::string_view error_of(PutOutcome outcome);
[[nodiscard]] std::string_view error_of(Outcome outcome);
/// In place of these, where it is known which server is lost.
[[nodiscard]] std::string lost_error(std::uint32_t server, bool is_write);
/// The error of a command that was not begun, since that server does not answer.
[[nodiscard]] std::string silent_error(std::uint32_t server);
[[nodiscard]] std::string wrong_arity(std::string_view command);
/// The reason to refuse this for any client: Redis's words for too few or too many arguments. Empty: there is none.
[[nodiscard]] std::string why_wrong(const Command& command, std::span<const std::string_view> words);
/// Obeys a command that has subcommands, and is not wrong.
void run_subcommand(Call& call);
/// HELP, of such a command.
void tell_subcommands(Call& call);

}  // namespace farside::kv
