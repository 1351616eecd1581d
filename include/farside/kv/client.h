// client.h — a program's way to the key-value store of a pool (farside up --kv SIZE).
//
//   kv::Client client;                       // the pool of this user on this machine
//   const auto session = client.open_session();
//   session->put_all(std::vector<kv::Write>{{"from", "9"}, {"to", "1"}});
//
// Thread safety: every call, from any thread. What it hands out belongs to one thread each.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "farside/kv/session.h"
#include "farside/kv/types.h"

namespace farside::kv {

class ServiceClient;

struct ClientOptions {
  /// The pool's runtime directory; when empty, the one that the command finds (FARSIDE_RUNTIME_DIR, or the user's own).
  std::filesystem::path runtime_dir;
  /// On a host without a node of the pool: "host:port" of one of its servers (that of --listen, with 1 added for node
  /// 0).
  std::string server{};
  /// The pool's; when empty, the one in the runtime directory.
  std::filesystem::path secret{};
  std::chrono::milliseconds time_out = kDefaultTimeout;  ///< for finding a server, and for opening a session
};

struct SessionOptions {
  ReadWay way = ReadWay::cells;
  std::optional<SiblingsKind> siblings{};  ///< unless it is said, a list of few and a filter of many
  Waking waking = Waking::doorbell;
  std::chrono::milliseconds time_out = kDefaultTimeout;  ///< of each call
  std::size_t cached_keys = std::size_t{1} << 16U;       ///< whose places it remembers, 48 B each
  /// When there are any, only the servers of these keys are connected to, and calls that need others end with
  /// peer_lost.
  std::vector<std::string> keys{};
};

class Client {
 public:
  /// Connects to a server. Throws Error when there is no pool with a store, or no server answers.
  explicit Client(const ClientOptions& options = {});
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Sessions end before their client does. When a server is lost, calls of the sessions that need it end with
  /// peer_lost or unknown from then on; one that is opened when the server is back has it again. A server that does not
  /// answer within a quarter of the time-out is lost to the session that is opened. Throws Error when no server
  /// answers, or with `keys` one that has some of them; waits for the shorter of the two time-outs.
  [[nodiscard]] std::unique_ptr<Session> open_session(const SessionOptions& options = {});
  /// Returns the number of copies of each server's data: 1, with --kv-copies 2 and no loss 2, and 0 if none answers.
  /// Throws as open_session.
  [[nodiscard]] std::vector<std::uint32_t> copies();
  /// Returns the longest until a server that does not answer is lost (`farside up --silence`); 0 in a pool on one
  /// machine, where it is lost when its process ends.
  [[nodiscard]] std::chrono::milliseconds longest_silence() const;

 private:
  std::unique_ptr<ServiceClient> links_;
  std::chrono::milliseconds time_out_;
};

}  // namespace farside::kv
