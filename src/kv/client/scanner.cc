#include "kv/client/scanner.h"

#include <algorithm>
#include <utility>

namespace farside::kv {

namespace {

constexpr std::size_t kMaxAbout = 1U << 16U;  // servers have a limit of their own
constexpr int kMaxRequests = 16;              // where there are few keys

}  // namespace

Outcome Scanner::scan(std::uint64_t cursor, std::string_view prefix, std::size_t about, Scanned& scanned,
                      Deadline deadline) {
  scanned = {{}, cursor};
  Request request = Request::by(caller_, RequestKind::scan);
  request.prefix = prefix;
  for (int asked = 0; asked < kMaxRequests && scanned.keys.size() < std::max<std::size_t>(about, 1); ++asked) {
    request.cursor = scanned.next & ((std::uint64_t{1} << kServersCursorBits) - 1);
    request.about = static_cast<std::uint32_t>(std::min(about - scanned.keys.size(), kMaxAbout));
    const Outcome outcome = scan_on(request, scanned, deadline);
    if (outcome != Outcome::done || scanned.next == 0) return outcome;
  }
  return Outcome::done;
}

// The next piece, of one server.
Outcome Scanner::scan_on(Request& request, Scanned& scanned, Deadline deadline) {
  const std::uint64_t server = std::exchange(scanned.next, 0) >> kServersCursorBits;
  if (server >= requests_.servers()) return Outcome::done;  // nothing is there
  Reply reply;
  const Outcome outcome = ask(static_cast<ServerNumber>(server), request, reply, deadline);
  if (outcome != Outcome::done) return outcome;
  scanned.keys.insert(scanned.keys.end(), reply.keys.begin(), reply.keys.end());
  if (reply.next != 0) {
    scanned.next = server << kServersCursorBits | reply.next;
  } else if (server + 1 < requests_.servers()) {
    scanned.next = (server + 1) << kServersCursorBits;
  }
  return Outcome::done;
}

Outcome Scanner::use(std::vector<MemoryUse>& servers, Deadline deadline) {
  servers.clear();
  for (ServerNumber server = 0; server < requests_.servers(); ++server) {
    Reply reply;
    const Outcome outcome = ask(server, Request::by(caller_, RequestKind::use), reply, deadline);
    if (outcome != Outcome::done) return outcome;
    servers.push_back(reply.use);
  }
  return Outcome::done;
}

Outcome Scanner::ask(ServerNumber server, const Request& request, Reply& reply, Deadline deadline) {
  const Outcome sent = requests_.send(server, request.encode(), deadline);
  if (sent != Outcome::done) return sent;
  const Outcome received = requests_.receive(server, bytes_, deadline);
  if (received != Outcome::done) return received;
  auto decoded = Reply::decode(bytes_);
  if (!decoded || decoded->kind != request.kind) return Outcome::peer_lost;  // it speaks another protocol
  reply = std::move(*decoded);
  return Outcome::done;
}

}  // namespace farside::kv
