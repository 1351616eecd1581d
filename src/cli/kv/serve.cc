// farside kv serve: the Redis protocol on a port, in front of the pool's store.

#include <csignal>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "farside/base/error.h"
#include "farside/kv/client.h"

#include "base/file_limit.h"
#include "base/file_lock.h"
#include "base/mutex.h"
#include "base/signals_held.h"
#include "cli/commands.h"
#include "cli/kv/session.h"
#include "cli/metrics_page.h"
#include "cli/metrics_server.h"
#include "kv/protocol/time_limits.h"
#include "kv/resp/reconnecting_session.h"
#include "kv/resp/resp_server.h"
#include "net/listener.h"
#include "net/runtime_dir.h"
#include "net/socket.h"

namespace farside::cli {

namespace {

using Kind = MetricsPage::Kind;

/// A gauge of each server of which `value` is known.
void add_of_servers(MetricsPage& page, std::string_view name, std::string_view help,
                    const std::vector<kv::MemoryUse>& servers,
                    const std::function<std::optional<std::uint64_t>(const kv::MemoryUse&)>& value) {
  page.begin(name, Kind::gauge, help);
  for (std::size_t server = 0; server < servers.size(); ++server) {
    if (const auto known = value(servers[server])) page.add(fmt::format("server=\"{}\"", server), *known);
  }
}

void add_servers(MetricsPage& page, const std::vector<kv::MemoryUse>& servers) {
  const auto add = [&](std::string_view name, std::string_view help, std::uint64_t kv::MemoryUse::*value) {
    add_of_servers(page, name, help, servers, [value](const kv::MemoryUse& use) { return use.*value; });
  };
  add("farside_kv_keys", "Keys that are there, and some that have expired just now.", &kv::MemoryUse::keys);
  add("farside_kv_versions", "Versions of all keys.", &kv::MemoryUse::versions);
  add("farside_kv_used_bytes", "Memory taken.", &kv::MemoryUse::bytes_used);
  add("farside_kv_total_bytes", "Memory there is.", &kv::MemoryUse::bytes_total);
  add("farside_kv_outside_bytes", "Memory besides that: rings of sessions, and a table of when keys expire.",
      &kv::MemoryUse::bytes_outside);
}

void add_journals(MetricsPage& page, const std::vector<kv::MemoryUse>& servers) {
  add_of_servers(page, "farside_kv_journal_writable",
                 "Whether the disk of a server's journal takes changes; 0: it is full, or has failed.", servers,
                 [](const kv::MemoryUse& use) -> std::optional<std::uint64_t> {
                   if (use.journal == kv::JournalState::none) return std::nullopt;
                   return use.journal == kv::JournalState::full || use.journal == kv::JournalState::failed ? 0 : 1;
                 });
}

void add_healing(MetricsPage& page, const std::vector<kv::MemoryUse>& servers) {
  using Value = std::optional<std::uint64_t>;
  add_of_servers(page, "farside_kv_degraded", "Whether a server's keys have one copy where there should be two.",
                 servers, [](const kv::MemoryUse& use) -> Value {
                   if (use.copies == kv::Copies::single) return std::nullopt;
                   return use.copies == kv::Copies::both ? 0 : 1;
                 });
  add_of_servers(page, "farside_kv_degraded_seconds", "For how long they have, in whole seconds.", servers,
                 [](const kv::MemoryUse& use) -> Value {
                   if (use.copies == kv::Copies::single) return std::nullopt;
                   return use.degraded_s;
                 });
  add_of_servers(page, "farside_kv_copied_percent", "How much of a lost copy has been made again so far.", servers,
                 [](const kv::MemoryUse& use) -> Value {
                   if (use.copies != kv::Copies::copying) return std::nullopt;
                   return use.copied_permille / 10;
                 });
}

void add_copies(MetricsPage& page, kv::Client& client) {
  std::vector<std::uint32_t> copies;
  try {
    copies = client.copies();
  } catch (const Error&) {  // farside_kv_up says so
    return;
  }
  page.begin("farside_kv_copies", Kind::gauge, "Copies of what a server has, its own included.");
  for (std::size_t server = 0; server < copies.size(); ++server) {
    page.add(fmt::format("server=\"{}\"", server), copies[server]);
  }
}

void add_clients(MetricsPage& page, const kv::RespStatus& status) {
  page.begin("farside_resp_clients", Kind::gauge, "Clients connected by the Redis protocol.");
  page.add("", status.clients);
  page.begin("farside_resp_connections_total", Kind::counter, "Clients that ever connected.");
  page.add("", status.connections);
  page.begin("farside_resp_commands_total", Kind::counter, "Commands obeyed or refused.");
  page.add("", status.commands);
  page.begin("farside_resp_wrong_passwords_total", Kind::counter, "Wrong passwords given.");
  page.add("", status.wrong_passwords);
  page.begin("farside_resp_disconnected_total", Kind::counter, "Clients that the server disconnected, by reason.");
  for (std::size_t why = 0; why < kv::kDisconnected.size(); ++why) {
    page.add(fmt::format("reason=\"{}\"", kv::kDisconnected.at(why)), status.disconnected.at(why));
  }
}

/// None: a server does not answer.
std::optional<std::vector<kv::MemoryUse>> use(kv::Session& session) {
  try {
    auto servers = session.use();
    return servers.done() ? std::optional(std::move(servers.value)) : std::nullopt;
  } catch (const kv::StoreReplaced&) {  // the next page is of the new one
    return std::nullopt;
  }
}

// A store that does not answer is a fact worth collecting as well.
std::string metrics_of(kv::Client& client, kv::Session& session, const kv::RespStatus& status) {
  MetricsPage page;
  const auto servers = use(session);
  page.begin("farside_kv_up", Kind::gauge, "Whether all servers of the store answer.");
  page.add("", servers ? 1 : 0);
  if (servers) {
    add_servers(page, *servers);
    add_journals(page, *servers);
    add_copies(page, client);
    add_healing(page, *servers);
  }
  add_clients(page, status);
  page.add_all(metrics::snapshot());
  return page.take();
}

struct ServeArguments {
  KvArguments kv;
  std::vector<std::string> addresses;  // none: those of default_addresses
  std::string metrics_address;
  std::string password_file;
  bool insecure = false;
  std::size_t threads = 2;
  kv::RespSettings settings{};
};

// Throws Error when the file belongs to another user than this one or root, or when other users may read or write it:
// what it holds is then no password. Does nothing when stat fails: reading the file says why.
void expect_private(const std::string& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) return;
  if ((status.st_uid == ::geteuid() || status.st_uid == 0) && (status.st_mode & 077) == 0) return;
  throw Error({"read a password from", file, "it belongs to another user, or other users may read or write it",
               "make it yours alone: chmod 600"});
}

// The first line.
std::string read_password(const std::string& file) {
  expect_private(file);
  std::ifstream input(file);
  std::string password;
  if (!std::getline(input, password) || password.empty()) {
    throw Error({"read a password from", file, input.is_open() ? "its first line is empty" : "it cannot be read",
                 "write the password there, and give the file to --password-file"});
  }
  if (password.size() > kv::kMaxPasswordBytes) {
    throw Error({"read a password from", file, "it is longer than 512 bytes", "give a shorter one"});
  }
  return password;
}

/// The pool that the command finds, also after it was started anew. Thread safety: every call, from any thread.
class ServedPool {
 public:
  explicit ServedPool(const KvArguments& arguments)
      : arguments_(arguments), client_(std::make_shared<kv::Client>(arguments.client())) {}

  /// Throws Error.
  kv::ReconnectingSession::Opened open() {
    const MutexLock lock(mutex_);
    try {
      return open_with(client_, number_);
    } catch (const Error&) {
      return open_another();
    }
  }
  /// Returns the client of the pool that was found last.
  [[nodiscard]] std::shared_ptr<kv::Client> client() {
    const MutexLock lock(mutex_);
    return client_;
  }

 private:
  using Opened = kv::ReconnectingSession::Opened;

  [[nodiscard]] Opened open_with(const std::shared_ptr<kv::Client>& client, std::uint64_t number) const {
    return {.owner = client, .session = client->open_session(arguments_.session()), .store = number};
  }

  // A pool that was started anew has another secret, so that the old client is not let in. The old one goes with its
  // last session.
  [[nodiscard]] Opened open_another() REQUIRES(mutex_) {
    auto client = std::make_shared<kv::Client>(arguments_.client());
    Opened opened = open_with(client, number_ + 1);
    client_ = std::move(client);
    ++number_;
    return opened;
  }

  const KvArguments arguments_;
  Mutex mutex_;
  std::shared_ptr<kv::Client> client_ GUARDED_BY(mutex_);
  std::uint64_t number_ GUARDED_BY(mutex_) = 0;  // of the pool
};

// Only this user reaches the second, where no password is needed on a machine with other users.
std::vector<std::string> default_addresses() { return {"127.0.0.1:6379", net::runtime_dir() / "resp.sock"}; }

void expect_secure(const ServeArguments& arguments) {
  if (arguments.insecure) return;
  for (const std::string& address : arguments.addresses) {
    if (!arguments.password_file.empty() || net::is_loopback(address)) continue;
    throw UsageError({"serve the Redis protocol at", address, "other machines could reach it, and there is no password",
                      "give one with --password-file, listen on 127.0.0.1, or say --insecure"});
  }
  expect_metrics_stay_here(arguments.metrics_address, "listen on 127.0.0.1, or say --insecure");
}

// The right to listen at a Unix socket, where a killed server may have left its name. Throws Error when another process
// has it.
FileLock claim(const std::string& socket) {
  Fd file(::open((socket + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  constexpr const char* kRemedy = "give another path to --listen";
  if (!file) throw errno_error("listen on", socket, kRemedy);
  if (auto lock = FileLock::try_lock(std::move(file), FileLock::Kind::exclusive, "listen on", socket, kRemedy)) {
    return std::move(*lock);
  }
  throw Error({"listen on", socket, "another process does", "end that, or give another address to --listen"});
}

int serve(const ServeArguments& arguments) {
  expect_secure(arguments);
  const std::vector<std::string> addresses = arguments.addresses.empty() ? default_addresses() : arguments.addresses;
  std::vector<FileLock> claims;
  for (const std::string& address : addresses) {
    if (net::is_host_local(address)) claims.push_back(claim(address));
  }
  SignalsHeld end{SIGTERM, SIGINT};  // first: threads inherit what is blocked
  end.keep();
  allow_many_files();  // one for each client
  kv::RespSettings settings = arguments.settings;
  if (!arguments.password_file.empty()) settings.password = read_password(arguments.password_file);
  ServedPool pool(arguments.kv);
  settings.silence_limit =
      kv::time_limits::unresponsive_timeout(pool.client()->longest_silence(), arguments.kv.limit());
  const auto open_session = [&] { return std::make_unique<kv::ReconnectingSession>([&] { return pool.open(); }); };

  const kv::RespServer server(addresses, settings, arguments.threads, open_session);
  for (const net::Listener& listener : server.listeners()) {
    std::cout << "serving the Redis protocol at " << listener.address() << '\n';
  }
  const std::unique_ptr<kv::Session> asking = arguments.metrics_address.empty() ? nullptr : open_session();
  std::optional<MetricsServer> metrics;
  if (asking != nullptr) {
    metrics.emplace(arguments.metrics_address, [&] { return metrics_of(*pool.client(), *asking, server.status()); });
    std::cout << "metrics at http://" << metrics->address() << "/metrics\n";
  }
  std::cout.flush();
  (void)end.wait();  // either signal ends the service
  return 0;
}

}  // namespace

void add_kv_serve(CLI::App& kv, Action& chosen) {
  const auto arguments = std::make_shared<ServeArguments>();
  CLI::App* command = kv.add_subcommand("serve", "Let programs that speak the Redis protocol use the store");
  arguments->kv.add_to(*command);
  command
      ->add_option("--listen", arguments->addresses,
                   "Where clients connect, also several times; else at 127.0.0.1:6379 and at resp.sock in the runtime "
                   "directory, which is open to this user alone")
      ->type_name("HOST:PORT|PATH");
  command->add_option("--metrics", arguments->metrics_address, "Where Prometheus collects metrics; else nowhere")
      ->type_name("HOST:PORT");
  command->add_option("--password-file", arguments->password_file, "What clients must say with AUTH is its first line")
      ->type_name("FILE");
  command->add_flag("--insecure", arguments->insecure,
                    "Let other machines reach clients' port without a password, or the metrics");
  command->add_option("--threads", arguments->threads, "How many threads serve")
      ->type_name("THREADS")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command->add_option("--clients", arguments->settings.clients, "How many clients may be connected")
      ->type_name("CLIENTS")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->footer(
      "Serves until it is told to end (SIGTERM, SIGINT).\n\n"
      "Example:\n  farside kv serve --listen 127.0.0.1:6379 &\n  redis-cli MSET from 9 to 1");
  command->callback([arguments, &chosen] { chosen = [arguments] { return serve(*arguments); }; });
}

}  // namespace farside::cli
