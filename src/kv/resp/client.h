// client.h — one client of the Redis protocol: what it sent, what it is told, and what it is in the middle of. Knows no
// sockets.
//
// Thread safety: one thread at a time; what clients share is in RespStatus.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kv/protocol/time_limits.h"
#include "kv/resp/command.h"
#include "kv/resp/request_parser.h"
#include "kv/resp/silent_servers.h"
#include "kv/resp/watched_session.h"

namespace farside::kv {

inline constexpr std::size_t kMaxPasswordBytes = 512;

struct RespSettings {
  std::string password{};  ///< of kMaxPasswordBytes at most; empty: none is asked for
  RequestLimits requests{};
  std::size_t output_bytes = std::size_t{256} << 20U;  ///< that a client has not taken; with more it is disconnected
  /// That one has not taken which has never said the password.
  std::size_t unauthenticated_output_bytes = 1024;
  /// The most that the server keeps for all clients together; with more, those that take most are disconnected.
  std::size_t buffer_bytes = std::size_t{1} << 30U;
  /// For so long a client may take nothing of its replies.
  std::chrono::milliseconds unread_limit = time_limits::kClientUnread;
  /// For so long a client may be connected without the password.
  std::chrono::milliseconds unauthenticated_limit = time_limits::kUnauthenticated;
  /// For so long a server of the store is waited for that does not answer; then what needs it is refused at once.
  std::chrono::milliseconds silence_limit = time_limits::kUnresponsive;
  /// For so long nothing is taken from a client that gave a wrong password; up to a second more.
  std::chrono::milliseconds wrong_password_pause = time_limits::kWrongPassword;
  std::size_t clients = 10'000;
};

/// Why the server disconnects a client that has not asked for it.
enum class Disconnected : std::uint8_t { output, unread, buffers, unauthenticated };
inline constexpr std::array<std::string_view, 4> kDisconnected{"output", "unread", "buffers", "unauthenticated"};

/// The state that INFO reports. Shared by its threads.
struct RespStatus {
  explicit RespStatus(RespSettings its) : settings(std::move(its)) {}

  const RespSettings settings;
  const std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
  std::atomic<std::uint64_t> clients = 0;
  std::atomic<std::uint64_t> connections = 0;                                   ///< ever
  std::atomic<std::uint64_t> commands = 0;                                      ///< ever
  std::atomic<std::uint64_t> wrong_passwords = 0;                               ///< ever
  std::array<std::atomic<std::uint64_t>, kDisconnected.size()> disconnected{};  ///< ever, by Disconnected
  SilentServers silent{settings.silence_limit};
  SessionLatencies latencies;
};

class RespClient {
 public:
  /// `session` and `status` outlive it. `address` is where the client is ("10.0.0.1:50000").
  RespClient(Session& session, RespStatus& status, std::uint64_t id, std::string address);

  /// Goes on with that session, which outlives it.
  void use(Session& session);

  /// Obeys the whole requests at the front of `input`, takes them away, and appends the replies to `output`. False when
  /// the connection is to be closed after them.
  [[nodiscard]] bool obey(std::string& input, std::string& output);

  // The same in steps, for a server that has many clients: what they only write is written for all at once.

  /// Obeys requests and appends the replies, until all are obeyed or there is something to be written: then `waits`.
  /// Until that is written nothing is changed in `input` and `output`, and then this is called again.
  void go_on(std::string& input, std::string& output);
  [[nodiscard]] bool waits() const noexcept { return waiting_ != 0; }
  /// The next request needs a server that may not answer: this is called again when more is known (SilentServers).
  /// Until then nothing is changed in `input`.
  [[nodiscard]] bool is_held_up() const noexcept { return is_held_up_; }
  /// Until it waits for nothing: what is to be written, it writes.
  void go_on_alone(std::string& input, std::string& output);
  [[nodiscard]] std::span<const Write> writes() { return unit_.writes(); }
  void end_writes(PutOutcome outcome, std::string& output);
  /// Or the connection is to be closed after the replies.
  [[nodiscard]] bool is_open() const noexcept { return open_; }
  /// The replies were more than a client may be owed: `output` is not whole, and the connection is to be closed at
  /// once.
  [[nodiscard]] bool overflowed() const noexcept { return overflowed_; }
  /// It gave a wrong password: nothing that follows has been looked at. Said once.
  [[nodiscard]] bool take_wrong_password() { return std::exchange(gave_wrong_password_, false); }
  /// The bytes that it keeps of its requests, beside `input`.
  [[nodiscard]] std::size_t buffered_bytes() const noexcept { return queued_bytes_ + parser_.buffered_bytes(); }

  // For commands.

  [[nodiscard]] const RequestLimits& limits() const noexcept { return status_.settings.requests; }
  [[nodiscard]] const RespStatus& status() const noexcept { return status_; }
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  [[nodiscard]] std::chrono::steady_clock::time_point since() const noexcept { return since_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  void rename(std::string_view name) { name_ = name; }

  [[nodiscard]] bool authenticated() const noexcept { return authenticated_; }
  [[nodiscard]] bool ever_authenticated() const noexcept { return ever_authenticated_; }
  /// False, and nothing changes, if the user or the password is wrong.
  [[nodiscard]] bool authenticate(std::string_view user, std::string_view password);

  void close_after_reply() { open_ = false; }
  /// As if it had just connected.
  void reset();

  void begin_transaction(RespReply& reply);
  void discard_transaction(RespReply& reply);
  void run_transaction(RespReply& reply);

 private:
  using Words = std::vector<std::string_view>;
  struct Request {
    const Command* command = nullptr;
    Words words{};
    bool is_too_large = false;  ///< it was skipped, and has no words
  };
  enum class Transaction : std::uint8_t { none, queuing, refused };

  void go_on(std::string& input, RespReply& reply);
  void release_memory();
  void take(RespReply& reply);
  void obey_alone(Request& request, RespReply& reply);
  void obey_held(RespReply& reply);
  /// The worst of the servers that it needs when it is obeyed, which may be later.
  [[nodiscard]] SilentServers::Worst worst_to(const Request& request) const;
  [[nodiscard]] SilentServers::Worst worst_now(const Request& request) const;
  [[nodiscard]] std::string why_not(const Request& request) const;
  void queue(const Request& request, RespReply& reply);
  void refuse(const Request& request, RespReply& reply, std::string_view error);
  void end_transaction();

  /// Those that were pending may wait then.
  void run_pending(RespReply& reply);
  void begin_writes(std::span<const Request> requests, RespReply& reply);
  /// One after the other, with one atomic get before and one atomic put after.
  void run(std::span<const Request> requests, RespReply& reply, bool as_array);
  /// The error of requests that were done together and failed.
  [[nodiscard]] std::string why_failed(std::span<const Request> requests, PutOutcome outcome) const;
  PutOutcome try_once(std::span<const Request> requests, RespReply& reply, bool as_array);
  void call(const Request& request, RespReply& reply);

  Session* session_;
  RespStatus& status_;
  const std::uint64_t id_;
  const std::string address_;
  const std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  std::string name_;
  RequestParser parser_;
  UnitOfWork unit_;
  bool authenticated_ = false;
  bool ever_authenticated_ = false;
  bool overflowed_ = false;
  bool gave_wrong_password_ = false;
  bool open_ = true;

  std::vector<Request> requests_;  // the first `pending_` wait for more, to be done together
  std::size_t pending_ = 0;
  std::size_t waiting_ = 0;            // of them, for what they write to be written
  std::size_t waiting_reply_ = 0;      // where their replies begin
  std::optional<std::size_t> held_{};  // the request after them
  bool is_held_up_ = false;
  std::size_t obeyed_bytes_ = 0;  // of the input
  std::size_t taken_words_ = 0;   // since memory was released
  bool is_broken_ = false;        // there will be no request any more

  Transaction transaction_ = Transaction::none;
  std::vector<Request> queued_;
  std::deque<std::string> queued_words_;  // what `queued_` points into
  std::size_t queued_bytes_ = 0;
};

}  // namespace farside::kv
