#include "kv/client/scanner.h"

#include <algorithm>
#include <utility>

namespace farside::kv {

namespace {

constexpr std::size_t kMaxAbout = 1U << 16U;  // servers have a limit of their own
constexpr int kMaxRequests = 16;              // where there are few keys

}  // namespace

Result<Scanned> Scanner::scan(std::uint64_t cursor, std::string_view prefix, std::size_t about, Deadline deadline) {
  Scanned scanned{{}, cursor};
  Request request = Request::by(caller_, RequestKind::scan);
  request.prefix = prefix;
  for (int asked = 0; asked < kMaxRequests && scanned.keys.size() < std::max<std::size_t>(about, 1); ++asked) {
    request.cursor = scanned.next & ((std::uint64_t{1} << kServersCursorBits) - 1);
    request.about = static_cast<std::uint32_t>(std::min(about - scanned.keys.size(), kMaxAbout));
    const Outcome outcome = scan_on(request, scanned, deadline);
    if (outcome != Outcome::done) return {outcome, {}};
    if (scanned.next == 0) break;
  }
  return {Outcome::done, std::move(scanned)};
}

// The next piece, of one server.
Outcome Scanner::scan_on(Request& request, Scanned& scanned, Deadline deadline) {
  const std::uint64_t server = std::exchange(scanned.next, 0) >> kServersCursorBits;
  if (server >= requests_.servers()) return Outcome::done;  // nothing is there
  const auto reply = ask(static_cast<ServerNumber>(server), request, deadline);
  if (!reply.done()) return reply.status;
  scanned.keys.insert(scanned.keys.end(), reply.value.keys.begin(), reply.value.keys.end());
  if (reply.value.next != 0) {
    scanned.next = server << kServersCursorBits | reply.value.next;
  } else if (server + 1 < requests_.servers()) {
    scanned.next = (server + 1) << kServersCursorBits;
  }
  return Outcome::done;
}

Result<std::vector<MemoryUse>> Scanner::use(Deadline deadline) {
  std::vector<MemoryUse> servers;
  for (ServerNumber server = 0; server < requests_.servers(); ++server) {
    const auto reply = ask(server, Request::by(caller_, RequestKind::use), deadline);
    if (!reply.done()) return {reply.status, {}};
    servers.push_back(reply.value.use);
  }
  return {Outcome::done, std::move(servers)};
}

Result<Reply> Scanner::ask(ServerNumber server, const Request& request, Deadline deadline) {
  const Outcome sent = requests_.send(server, request.encode(), deadline);
  if (sent != Outcome::done) return {sent, {}};
  auto received = requests_.receive(server, deadline);
  if (!received.done()) return {received.status, {}};
  bytes_ = std::move(received.value);
  auto reply = Reply::decode(bytes_);
  if (!reply || reply->kind != request.kind) return {Outcome::peer_lost, {}};  // it speaks another protocol
  return {Outcome::done, std::move(*reply)};
}

}  // namespace farside::kv
