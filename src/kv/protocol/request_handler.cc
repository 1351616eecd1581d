#include "kv/protocol/request_handler.h"

#include <algorithm>

namespace farside::kv {

namespace {

// Whatever a request asks for, the reply is no longer than a message may be: a client may name a large key many times.
constexpr std::uint64_t kVersionBytes = 64;   // at least, in memory and in the message
constexpr std::uint32_t kMostScanned = 1000;  // keys of any length

}  // namespace

Message RequestHandler::answer(std::span<const std::byte> bytes) {
  const auto request = Request::decode(bytes);
  if (!request) return {};
  if (request->settled != 0) store_.settle({request->settled, request->session});
  Reply reply;
  reply.kind = request->kind;
  const auto answered = [&reply](const Answered& answer) {
    reply.answer = answer.answer;
    reply.newest = answer.newest;
  };
  switch (request->kind) {
    case RequestKind::get: return get(*request);
    case RequestKind::scan: return scan(*request);
    case RequestKind::prepare:
      answered(store_.prepare({request->timestamp, request->siblings, request->servers, request->writes}));
      break;
    case RequestKind::commit: answered(store_.commit(request->timestamp)); break;
    case RequestKind::abort: store_.abort(request->timestamp); break;
    case RequestKind::put:
      if (request->writes.size() != 1) return {};
      answered(store_.put(request->timestamp, request->writes.front()));
      break;
    case RequestKind::fate: reply.fate = store_.fate_or_bar(request->timestamp); break;
    case RequestKind::use: reply.use = store_.use(); break;
  }
  return reply.encode();
}

Message RequestHandler::get(const Request& request) {
  Reply reply;
  reply.kind = request.kind;
  reply.forgotten = store_.forgotten();
  records_.clear();
  std::uint64_t bytes = kVersionBytes;
  for (const std::string_view key : request.keys) {
    const auto found = request.candidates.empty() ? store_.newest(key) : store_.among(key, request.candidates);
    bytes += kVersionBytes + (found ? found->place.bytes : 0);
    if (bytes > kMostMessageBytes) return Reply{.kind = request.kind, .answer = Answer::refused}.encode();
    if (!found) {
      reply.versions.emplace_back();
      continue;
    }
    records_.push_back(store_.record(*found));
    reply.versions.push_back({found->generation, found->place.word(), records_.back()});
  }
  return reply.encode();
}

Message RequestHandler::scan(const Request& request) const {
  const Scanned scanned = store_.scan(request.cursor, request.prefix, std::min(request.about, kMostScanned));
  Reply reply;
  reply.kind = request.kind;
  reply.keys.assign(scanned.keys.begin(), scanned.keys.end());
  reply.next = scanned.next;
  return reply.encode();
}

}  // namespace farside::kv
