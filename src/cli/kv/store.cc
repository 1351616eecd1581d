// farside kv get, put, mget, mput, erase and scan.
#include <chrono>
#include <cstdint>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "farside/base/error.h"
#include "farside/base/units.h"
#include "farside/kv/client.h"

#include "cli/command_time.h"
#include "cli/commands.h"
#include "cli/kv/session.h"
#include "cli/kv/text.h"

namespace farside::cli {

namespace {

constexpr std::size_t kScannedAtOnce = 1000;

std::string named(const std::vector<std::string>& keys) {
  return keys.size() == 1 ? kv_word(keys.front()) : std::to_string(keys.size()) + " keys";
}

/// Valid until the session's next get.
std::span<const kv::Got> get_all(kv::Session& session, const std::vector<std::string>& keys) {
  const std::vector<std::string_view> wanted(keys.begin(), keys.end());
  const auto got = session.get_all(wanted);
  expect_done(got.status, "get", named(keys));
  return got.value;
}

int say_absent(const std::string& key) {
  std::cerr << "farside: there is no key " << kv_word(key) << '\n';
  return 1;
}

// ---- What the commands do

int get(kv::Session& session, const std::string& key) {
  const kv::Got got = get_all(session, {key}).front();
  if (!got.present) return say_absent(key);
  std::cout.write(got.value.data(), static_cast<std::streamsize>(got.value.size()));
  return 0;
}

int get_several(kv::Session& session, const std::vector<std::string>& keys) {
  const std::span<const kv::Got> got = get_all(session, keys);
  int code = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (got[i].present) {
      std::cout << kv_word(keys[i]) << ' ' << kv_word(got[i].value) << '\n';
    } else {
      code = say_absent(keys[i]);
    }
  }
  return code;
}

/// Keys and values alternate.
int put(kv::Session& session, const std::vector<std::string>& words, std::chrono::milliseconds ttl) {
  if (words.size() % 2 != 0) {
    throw UsageError({"put", kv_word(words.back()), "it has no value", "give keys and values alternately"});
  }
  const std::uint64_t expires_ns =
      ttl.count() == 0 ? 0 : session.wall_ns() + static_cast<std::uint64_t>(std::chrono::nanoseconds(ttl).count());
  std::vector<kv::Write> writes;
  std::vector<std::string> keys;
  for (std::size_t i = 0; i + 1 < words.size(); i += 2) {
    writes.push_back({.key = words[i], .value = words[i + 1], .expires_ns = expires_ns});
    keys.push_back(words[i]);
  }
  expect_done(session.put_all(writes), "put", named(keys));
  return 0;
}

int erase(kv::Session& session, const std::vector<std::string>& keys) {
  const std::vector<std::string_view> erased(keys.begin(), keys.end());
  expect_done(session.erase_all(erased), "erase", named(keys));
  return 0;
}

int scan(kv::Session& session, const std::string& prefix) {
  std::uint64_t cursor = 0;
  do {
    const auto scanned = session.scan(cursor, prefix, kScannedAtOnce);
    expect_done(scanned.status, "scan", "the store");
    for (const std::string& key : scanned.value.keys) std::cout << kv_word(key) << '\n';
    cursor = scanned.value.next;
  } while (cursor != 0);
  return 0;
}

std::string read_everything() { return {std::istreambuf_iterator<char>(std::cin), {}}; }

/// Keys and values, a pair a line, as mget prints them.
std::vector<std::string> read_pairs() {
  std::vector<std::string> all;
  std::size_t number = 0;
  for (std::string line; std::getline(std::cin, line);) {
    const std::string what = "line " + std::to_string(++number);
    std::vector<std::string> words = kv_words(line, what);
    if (words.empty()) continue;
    if (words.size() != 2) throw UsageError({"read", what, "it is not a key and a value", "quote what has blanks"});
    all.insert(all.end(), words.begin(), words.end());
  }
  return all;
}

// ---- How they are called

/// A command's arguments, of which each command takes some.
struct StoreArguments {
  KvArguments kv;
  std::string key;
  std::optional<std::string> value;
  bool is_prefix = false;  ///< `key` is the beginning of some
  std::vector<std::string> words;
  std::size_t words_of_a_key = 1;  ///< 2: with its value
  std::string ttl;

  /// Those that the command is about, as far as its arguments say.
  [[nodiscard]] std::vector<std::string> keys() const {
    if (is_prefix) return {};
    if (words.empty()) return key.empty() ? std::vector<std::string>() : std::vector{key};
    std::vector<std::string> keys;
    for (std::size_t at = 0; at < words.size(); at += words_of_a_key) keys.push_back(words[at]);
    return keys;
  }
  [[nodiscard]] std::chrono::milliseconds time_to_live() const {
    return ttl.empty() ? std::chrono::milliseconds(0) : parse_duration(ttl, "--ttl");
  }
};

using Act = int (*)(kv::Session& session, const StoreArguments& arguments);

/// A command that works on the store through a session.
CLI::App* add_command(CLI::App& kv, Action& chosen, const std::string& name, const std::string& help,
                      const std::shared_ptr<StoreArguments>& arguments, Act act) {
  CLI::App* command = kv.add_subcommand(name, help);
  arguments->kv.add_to(*command);
  command->callback([arguments, act, &chosen] {
    chosen = [arguments, act] {
      const CommandTime time(arguments->kv.limit());
      kv::Client client(arguments->kv.client());
      const auto session = open_session_within(time, client, KvArguments::session_for(arguments->keys()));
      // A scan asks again and again; each of the other commands makes one call.
      if (arguments->is_prefix) session->set_time_out(time.limit());
      return act(*session, *arguments);
    };
  });
  return command;
}

void add_ttl(CLI::App& command, StoreArguments& arguments) {
  command.add_option("--ttl", arguments.ttl, "Have it gone after so long")->type_name("TIME");
}

void add_keys(CLI::App& command, StoreArguments& arguments) {
  command.add_option("keys", arguments.words, "The keys")->required()->type_name("KEY...");
}

void add_readers(CLI::App& kv, Action& chosen) {
  const auto one = std::make_shared<StoreArguments>();
  CLI::App* command =
      add_command(kv, chosen, "get", "Print the value of a key, as it is", one,
                  [](kv::Session& session, const StoreArguments& given) { return get(session, given.key); });
  command->add_option("key", one->key, "The key")->required()->type_name("KEY");
  command->footer("Exits with 1 when there is no such key.\n\nExample:\n  farside kv get picture >picture.png");

  const auto several = std::make_shared<StoreArguments>();
  command =
      add_command(kv, chosen, "mget", "Print several keys as they were at one moment", several,
                  [](kv::Session& session, const StoreArguments& given) { return get_several(session, given.words); });
  add_keys(*command, *several);
  command->footer(
      "A key and its value a line, between quotes where they hold more than letters, digits and signs: what farside "
      "kv\n"
      "mput reads. Exits with 1 when one of the keys is not there.\n\nExample:\n  farside kv mget from to");

  const auto all = std::make_shared<StoreArguments>();
  command = add_command(kv, chosen, "scan", "Print the keys that there are", all,
                        [](kv::Session& session, const StoreArguments& given) { return scan(session, given.key); });
  all->is_prefix = true;
  command->add_option("prefix", all->key, "Those that begin with it")->type_name("PREFIX");
  command->footer(
      "In no order, and not of one moment; what is written meanwhile may be printed twice.\n\n"
      "Example:\n  farside kv scan user: | sort -u");
}

void add_writers(CLI::App& kv, Action& chosen) {
  const auto one = std::make_shared<StoreArguments>();
  CLI::App* command =
      add_command(kv, chosen, "put", "Write a key", one, [](kv::Session& session, const StoreArguments& given) {
        return put(session, {given.key, given.value ? *given.value : read_everything()}, given.time_to_live());
      });
  command->add_option("key", one->key, "The key")->required()->type_name("KEY");
  command->add_option("value", one->value, "Its value; without it, what comes on standard input")->type_name("VALUE");
  add_ttl(*command, *one);
  command->footer("Example:\n  farside kv put picture --ttl 1h <picture.png");

  const auto several = std::make_shared<StoreArguments>();
  command = add_command(kv, chosen, "mput", "Write several keys, all or nothing", several,
                        [](kv::Session& session, const StoreArguments& given) {
                          return put(session, given.words.empty() ? read_pairs() : given.words, given.time_to_live());
                        });
  several->words_of_a_key = 2;
  command->add_option("pairs", several->words, "Keys and values alternately; read from standard input if omitted")
      ->type_name("KEY VALUE...");
  add_ttl(*command, *several);
  command->footer(
      "On standard input it wants a key and a value a line, as farside kv mget prints them.\n\n"
      "Example:\n  farside kv mput from 9 to 1");

  const auto erased = std::make_shared<StoreArguments>();
  command = add_command(kv, chosen, "erase", "Erase keys, all or none", erased,
                        [](kv::Session& session, const StoreArguments& given) { return erase(session, given.words); });
  add_keys(*command, *erased);
  command->footer("Keys that are not there do no harm.\n\nExample:\n  farside kv erase from to");
}

}  // namespace

void add_kv_store(CLI::App& kv, Action& chosen) {
  add_readers(kv, chosen);
  add_writers(kv, chosen);
}

}  // namespace farside::cli
