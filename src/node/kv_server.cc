#include "node/kv_server.h"

#include "kv/service/sockets.h"

namespace farside {

namespace {

kv::ServiceOptions options_of(const PoolDirectory& pool, const Team& team, std::uint64_t bytes,
                              const std::optional<kv::JournalSettings>& journal) {
  kv::ServiceOptions options;
  options.self = team.rank();
  for (Rank rank = 0; rank < team.size(); ++rank) options.servers.push_back(kv::server_socket(pool.path(), rank));
  options.listen = {options.servers.at(team.rank())};
  options.store.bytes = bytes;
  options.journal = journal;
  if (journal) options.journal->directory += "/server-" + std::to_string(team.rank());
  return options;
}

}  // namespace

KvServer::KvServer(const PoolDirectory& pool, const Team& team, std::uint64_t bytes,
                   const std::optional<kv::JournalSettings>& journal)
    : service_(options_of(pool, team, bytes, journal), Secret::load(pool.secret())),
      thread_([this](const std::stop_token& stop) {
        const std::stop_callback wake(stop, [this] { service_.wake(); });
        service_.serve_until([&stop] { return stop.stop_requested(); });
      }) {}

}  // namespace farside
