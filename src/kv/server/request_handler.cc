#include "kv/server/request_handler.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace farside::kv {

namespace {

// Whatever a request asks for, the reply is no longer than a message may be: a client may name a large key many times.
constexpr std::uint64_t kVersionBytes = 64;  // at least, in memory and in the message
constexpr std::uint32_t kMaxScanned = 1000;  // keys of any length

bool is_change(const Request& request) {
  switch (request.kind) {
    case RequestKind::prepare:
    case RequestKind::commit:
    case RequestKind::abort:
    case RequestKind::fate: return true;
    case RequestKind::put: return !request.writes.empty();
    default: return false;
  }
}

Message encode_together(const std::vector<Message>& replies) {
  Reply reply{.kind = RequestKind::several};
  reply.parts.assign(replies.begin(), replies.end());
  return reply.encode();
}

/// Returns the reply in place of one whose effect could not be kept. Refusals, and replies to reads, are sent as they
/// are.
Message with_unknown_outcome(Message bytes) {
  const Reply reply = Reply::decode(bytes).value();
  if (reply.kind == RequestKind::several) {
    std::vector<Message> unknown;
    for (const MessageView part : reply.parts) unknown.push_back(with_unknown_outcome({part.begin(), part.end()}));
    return encode_together(unknown);
  }
  const bool is_read =
      reply.kind == RequestKind::get || reply.kind == RequestKind::scan || reply.kind == RequestKind::use;
  if (is_read || reply.answer != Answer::done) return bytes;
  return Reply{.kind = reply.kind, .answer = reply.kind == RequestKind::commit ? Answer::unwritable : Answer::unknown}
      .encode();
}

}  // namespace

Message RequestHandler::answer(std::span<const std::byte> bytes) {
  auto request = Request::decode(bytes);
  if (!request) return {};
  if (request->kind == RequestKind::several) return answer_each(*request);
  if (is_change(*request)) return change(*request, bytes).encode();
  changes_.note(*request);
  switch (request->kind) {
    case RequestKind::get: std::ranges::sort(request->candidates); return get(*request);
    case RequestKind::scan: return scan(*request);
    case RequestKind::use: return Reply{.kind = request->kind, .use = use()}.encode();
    default: return {};
  }
}

Reply RequestHandler::change(const Request& request, std::span<const std::byte> bytes) {
  changes_.note(request);
  return changes_.carry_out(request, bytes);
}

// Changes alone: their replies are short.
Message RequestHandler::answer_each(const Request& several) {
  std::vector<Message> replies;
  for (const MessageView part : several.parts) {
    const auto request = Request::decode(part);
    if (!request || !is_change(*request)) return {};
    replies.push_back(change(*request, part).encode());
  }
  return encode_together(replies);
}

void RequestHandler::keep(Inbox& inbox) {
  ring_bytes_ = inbox.ring_bytes();
  const bool is_kept = changes_.sync() && changes_.has_enough_copies();
  if (!std::exchange(holds_, false)) return;
  inbox.release(
      [is_kept](Message reply) { return is_kept ? std::move(reply) : with_unknown_outcome(std::move(reply)); });
}

// There may be millions of keys, of candidates, and of versions of one key. So each key is looked for once.
Message RequestHandler::get(const Request& request) {
  std::unordered_map<std::string_view, std::optional<FoundVersion>> looked_for;
  const auto find = [&](std::string_view key) {
    if (request.candidates.empty()) return store_.newest(key);
    const auto [known, is_new] = looked_for.try_emplace(key);
    if (is_new) known->second = store_.among(key, request.candidates);
    return known->second;
  };
  Reply reply;
  reply.kind = request.kind;
  reply.forgotten = store_.forgotten();
  records_.clear();
  std::uint64_t bytes = kVersionBytes;
  for (const std::string_view key : request.keys) {
    const auto found = find(key);
    bytes += kVersionBytes + (found ? found->place.bytes : 0);
    if (bytes > kMaxMessageBytes) return Reply{.kind = request.kind, .answer = Answer::refused}.encode();
    if (!found) {
      reply.versions.emplace_back();
      continue;
    }
    records_.push_back(store_.record(*found));
    reply.versions.push_back({found->generation, found->place.word(), records_.back()});
  }
  return reply.encode();
}

MemoryUse RequestHandler::use() const {
  MemoryUse use = changes_.use();
  use.bytes_outside += ring_bytes_;
  return use;
}

Message RequestHandler::scan(const Request& request) {
  const Scanned scanned = store_.scan(request.cursor, request.prefix, std::min(request.about, kMaxScanned));
  Reply reply;
  reply.kind = request.kind;
  reply.keys.assign(scanned.keys.begin(), scanned.keys.end());
  reply.next = scanned.next;
  return reply.encode();
}

}  // namespace farside::kv
