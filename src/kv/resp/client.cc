#include "kv/resp/client.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "farside/base/error.h"

#include "base/assert.h"
#include "kv/contention.h"
#include "kv/protocol/key_id.h"
#include "kv/protocol/time_limits.h"
#include "kv/resp/text.h"
#include "net/secret.h"

namespace farside::kv {

namespace {

constexpr std::size_t kMaxPending = 64;
// The limits before the password: enough for HELLO with a password and a name.
constexpr RequestLimits kUnauthenticatedLimits{.arguments = 10,
                                               .argument_bytes = kMaxPasswordBytes,
                                               .request_bytes = 1024,
                                               .line_bytes = 1024,
                                               .skipped_argument_bytes = 0,
                                               .beyond = "unauthenticated"};
// Requests with more words than that leave no memory behind.
constexpr std::size_t kKeptWords = 256;

std::span<const std::uint8_t> unsigned_bytes(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

std::string unknown_command(std::span<const std::string_view> words) {
  constexpr std::size_t kShown = 128;
  std::string error =
      "ERR unknown command '" + std::string(words.front().substr(0, kShown)) + "', with args beginning with: ";
  std::string shown;
  for (const auto word : words.subspan(1)) {
    if (shown.size() >= kShown) break;
    shown += "'" + std::string(word.substr(0, kShown - shown.size())) + "' ";
  }
  return error + shown;
}

// How an HTTP request begins, or goes on. A web page may send one to a port that only its reader's machine can reach,
// and what stands in it would be obeyed.
bool is_http(std::string_view word) { return is(word, "post") || is(word, "host:"); }

// If they are alike, the first.
SilentServers::Worst worse(const SilentServers::Worst& first, const SilentServers::Worst& second) {
  return second.answers > first.answers ? second : first;
}

bool reads(const Command& command, std::size_t words) { return command.first_key != 0 && words > command.blind_words; }

}  // namespace

RespClient::RespClient(Session& session, RespStatus& status, std::uint64_t id, std::string address)
    : session_(&session),
      status_(status),
      id_(id),
      address_(std::move(address)),
      parser_(status.settings.requests),
      unit_(session) {
  reset();
}

void RespClient::use(Session& session) {
  session_ = &session;
  unit_.use(session);
}

void RespClient::reset() {
  end_transaction();
  name_.clear();
  authenticated_ = status_.settings.password.empty();
  ever_authenticated_ = ever_authenticated_ || authenticated_;
  parser_.limit(authenticated_ ? limits() : kUnauthenticatedLimits);
}

bool RespClient::authenticate(std::string_view user, std::string_view password) {
  const std::string& right = status_.settings.password;
  const bool known = right.empty() || equal_in_constant_time(unsigned_bytes(password), unsigned_bytes(right));
  if (user != "default" || !known) {
    ++status_.wrong_passwords;
    gave_wrong_password_ = true;
    return false;
  }
  authenticated_ = ever_authenticated_ = true;
  parser_.limit(limits());
  return true;
}

bool RespClient::obey(std::string& input, std::string& output) {
  (void)take_wrong_password();  // a server waits before it goes on
  go_on_alone(input, output);
  return is_open();
}

void RespClient::go_on_alone(std::string& input, std::string& output) {
  for (go_on(input, output); waits(); go_on(input, output)) {
    PutOutcome outcome = PutOutcome::unknown;
    try {
      outcome = session_->put_all(writes());
    } catch (const Error&) {  // of what became of it, nothing is known
    }
    end_writes(outcome, output);
  }
}

void RespClient::go_on(std::string& input, std::string& output) {
  RespReply reply(output, status_.settings.output_bytes);
  go_on(input, reply);
  if (!waits() && !is_held_up()) release_memory();
  overflowed_ = reply.overflowed();
  open_ = open_ && !overflowed_;
}

void RespClient::go_on(std::string& input, RespReply& reply) {
  if (held_ && !waits()) obey_held(reply);
  while (open_ && !waits() && !is_held_up() && !is_broken_ && !reply.overflowed() && !gave_wrong_password_) {
    if (requests_.size() == pending_) requests_.emplace_back();
    Request& request = requests_[pending_];
    const auto next = parser_.next(std::span(input).subspan(obeyed_bytes_), request.words);
    is_broken_ = next == RequestParser::Next::broken;
    if (is_broken_) break;
    obeyed_bytes_ += parser_.consumed();
    if (next == RequestParser::Next::incomplete) break;
    request.is_too_large = next == RequestParser::Next::too_large;
    if (request.is_too_large || !request.words.empty()) take(reply);
  }
  if (!waits()) run_pending(reply);
  if (waits() || is_held_up()) return;
  if (is_broken_ && open_) {
    reply.error(parser_.error());
    open_ = false;
  }
  input.erase(0, std::exchange(obeyed_bytes_, 0));
}

// Idle clients are many: what was made for the last requests is not kept for the next.
void RespClient::release_memory() {
  unit_.begin();  // values that commands made
  if (taken_words_ <= kKeptWords) return;
  taken_words_ = 0;
  requests_ = {};
  unit_.release_memory();
  if (parser_.is_between_requests()) parser_.release_memory();
}

// Reads, and writes whatever is there, are done together when they follow each other.
void RespClient::take(RespReply& reply) {
  status_.commands.fetch_add(1, std::memory_order_relaxed);
  Request& request = requests_[pending_];
  taken_words_ += request.words.size();
  if (!request.is_too_large && is_http(request.words.front())) return close_after_reply();
  request.command = request.is_too_large ? nullptr : find_command(request.words.front());
  const bool can_wait = why_not(request).empty() && transaction_ == Transaction::none &&
                        worst_to(request).answers == SilentServers::Answers::yes && request.command->first_key != 0 &&
                        (request.command->has(Command::kReadOnly) || !reads(*request.command, request.words.size()));
  if (can_wait) {
    if (++pending_ == kMaxPending) run_pending(reply);
    return;
  }
  held_ = pending_;
  run_pending(reply);
  if (!waits()) obey_held(reply);
}

// Or waits until it is known whether a server answers.
void RespClient::obey_held(RespReply& reply) {
  Request& request = requests_[*held_];
  is_held_up_ = worst_to(request).answers == SilentServers::Answers::perhaps;
  if (is_held_up_) return;
  held_.reset();
  obey_alone(request, reply);
}

void RespClient::obey_alone(Request& request, RespReply& reply) {
  const std::string refusal = why_not(request);
  if (!refusal.empty()) {
    refuse(request, reply, refusal);
  } else if (transaction_ != Transaction::none && !request.command->has(Command::kAtOnce)) {
    queue(request, reply);
  } else if (const auto worst = worst_to(request); worst.answers == SilentServers::Answers::no) {
    reply.error(silent_error(worst.server));
    if (request.command->has(Command::kEndsMulti)) end_transaction();
  } else if (request.command->first_key != 0) {
    run({&request, 1}, reply, false);
  } else {
    call(request, reply);
  }
}

SilentServers::Worst RespClient::worst_to(const Request& request) const {
  if (!status_.silent.any() || !why_not(request).empty()) return {};
  if (request.command->has(Command::kEndsMulti)) {
    SilentServers::Worst worst;
    for (const Request& each : queued_) worst = worse(worst, worst_now(each));
    return worst;
  }
  const bool is_queued = transaction_ != Transaction::none && !request.command->has(Command::kAtOnce);
  return is_queued ? SilentServers::Worst{} : worst_now(request);
}

SilentServers::Worst RespClient::worst_now(const Request& request) const {
  using Use = SilentServers::Use;
  if (request.command->has(Command::kAllServers)) return status_.silent.of_all();
  SilentServers::Worst worst;
  const auto ask = [&](Use use, std::uint32_t server) {
    worst = worse(worst, {status_.silent.to(use, server), server});
  };
  request.command->for_each_key(request.words, [&](auto key) {
    const std::uint32_t server = session_->server_of(key);
    if (request.command->has(Command::kWrite)) ask(Use::write, server);
    if (reads(*request.command, request.words.size())) ask(Use::read, server);
  });
  return worst;
}

// Empty: it may be obeyed.
std::string RespClient::why_not(const Request& request) const {
  const auto& [command, words, is_too_large] = request;
  if (is_too_large) return std::string(kTooLarge);
  if (command == nullptr) return unknown_command(words);
  if (std::string wrong = why_wrong(*command, words); !wrong.empty()) return wrong;
  if (!authenticated_ && !command->has(Command::kNoAuth)) return "NOAUTH Authentication required.";
  if (transaction_ != Transaction::none && command->has(Command::kNoMulti)) {
    return "ERR Command not allowed inside a transaction";
  }
  bool keys_fit = true;
  command->for_each_key(words, [&](std::string_view key) { keys_fit &= !key.empty() && key.size() <= kMaxKeyBytes; });
  return keys_fit ? "" : "ERR keys have 1 to 65536 bytes";
}

void RespClient::refuse(const Request& request, RespReply& reply, std::string_view error) {
  if (request.command != nullptr && request.command->has(Command::kEndsMulti)) {
    constexpr std::string_view kErr = "ERR ";
    const auto why = error.substr(error.starts_with(kErr) ? kErr.size() : 0);
    reply.error("EXECABORT Transaction discarded because of: " + std::string(why));
    return end_transaction();
  }
  reply.error(error);
  if (transaction_ == Transaction::queuing) transaction_ = Transaction::refused;
}

void RespClient::run_pending(RespReply& reply) {
  const std::span requests(requests_.data(), std::exchange(pending_, 0));
  const auto only_writes = [](const Request& each) { return !reads(*each.command, each.words.size()); };
  if (requests.empty()) return;
  if (std::ranges::all_of(requests, only_writes)) {
    begin_writes(requests, reply);
  } else {
    run(requests, reply, false);
  }
}

// The replies are those of what will have been written.
void RespClient::begin_writes(std::span<const Request> requests, RespReply& reply) {
  assert_that(!waits(), "requests wait for one put at a time");
  waiting_ = requests.size();
  waiting_reply_ = reply.bytes();
  unit_.begin();
  for (const Request& request : requests) call(request, reply);
}

void RespClient::end_writes(PutOutcome outcome, std::string& output) {
  const std::size_t count = std::exchange(waiting_, 0);
  if (outcome == PutOutcome::done) return;
  RespReply reply(output);
  reply.take_back(waiting_reply_);
  const std::string error = why_failed({requests_.data(), count}, outcome);
  for (std::size_t i = 0; i < count; ++i) reply.error(error);
}

void RespClient::run(std::span<const Request> requests, RespReply& reply, bool as_array) {
  const std::size_t before = reply.bytes();
  Contention contention(time_limits::kContention);
  PutOutcome wrote{};
  do {
    wrote = try_once(requests, reply, as_array);
    if (wrote == PutOutcome::done) return;
    reply.take_back(before);
  } while (wrote == PutOutcome::differs && contention.try_again());
  const std::string failure = why_failed(requests, wrote);
  // Each of several requests that were done together has an error of its own.
  for (std::size_t i = 0; i < (as_array ? 1 : requests.size()); ++i) reply.error(failure);
}

std::string RespClient::why_failed(std::span<const Request> requests, PutOutcome outcome) const {
  if (outcome != PutOutcome::unknown) return std::string(error_of(outcome));
  const auto writes = [](const Request& each) { return each.command->has(Command::kWrite); };
  const bool is_write = std::ranges::any_of(requests, writes);
  std::optional<std::uint32_t> lost;
  for (const Request& request : requests) {
    request.command->for_each_key(request.words, [&](auto key) {
      if (!lost) lost = session_->lost_server_of(key);
    });
  }
  if (lost) return lost_error(*lost, is_write);
  return std::string(is_write ? kUnknown : kNoAnswer);
}

PutOutcome RespClient::try_once(std::span<const Request> requests, RespReply& reply, bool as_array) {
  try {
    unit_.begin();
    for (const auto& [command, words, is_too_large] : requests) {
      if (reads(*command, words.size())) command->for_each_key(words, [this](auto key) { unit_.want(key); });
    }
    if (!unit_.load()) return PutOutcome::unknown;
    if (as_array) reply.array(requests.size());
    for (const Request& request : requests) call(request, reply);
    return unit_.commit();
  } catch (const Error&) {  // of what became of it, nothing is known
    return PutOutcome::unknown;
  }
}

void RespClient::call(const Request& request, RespReply& reply) {
  Call call{request.words, reply, unit_, *session_, *this};
  request.command->run(call);
}

void RespClient::begin_transaction(RespReply& reply) {
  if (transaction_ != Transaction::none) return reply.error("ERR MULTI calls can not be nested");
  transaction_ = Transaction::queuing;
  reply.ok();
}

void RespClient::queue(const Request& request, RespReply& reply) {
  std::size_t bytes = 0;
  for (const auto word : request.words) bytes += word.size() + sizeof(std::string) + sizeof(std::string_view);
  bytes += sizeof request;
  if (queued_bytes_ + bytes > limits().request_bytes) return refuse(request, reply, "ERR the transaction is too large");
  queued_bytes_ += bytes;
  Request& copy = queued_.emplace_back(Request{request.command, {}});
  for (const auto word : request.words) copy.words.emplace_back(queued_words_.emplace_back(word));
  reply.status("QUEUED");
}

void RespClient::discard_transaction(RespReply& reply) {
  if (transaction_ == Transaction::none) return reply.error("ERR DISCARD without MULTI");
  end_transaction();
  reply.ok();
}

void RespClient::run_transaction(RespReply& reply) {
  if (transaction_ == Transaction::none) return reply.error("ERR EXEC without MULTI");
  if (transaction_ == Transaction::refused) {
    reply.error("EXECABORT Transaction discarded because of previous errors.");
  } else {
    run(queued_, reply, true);
  }
  end_transaction();
}

void RespClient::end_transaction() {
  transaction_ = Transaction::none;
  queued_.clear();
  queued_words_.clear();
  queued_bytes_ = 0;
}

}  // namespace farside::kv
