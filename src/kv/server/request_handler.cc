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

/// Returns the answer to a change that is made and could not be kept. None: the reply is sent as it is.
std::optional<Answer> answer_of_unkept(RequestKind kind) {
  switch (kind) {
    case RequestKind::get:
    case RequestKind::scan:
    case RequestKind::use: return std::nullopt;
    case RequestKind::commit: return Answer::unwritable;
    default: return Answer::unknown;
  }
}

/// Returns the answer to a change that is made, with too few copies. An end that others ask for may be known: the loss
/// of this server takes its whole partition with it.
std::optional<Answer> answer_with_too_few_copies(RequestKind kind) {
  switch (kind) {
    case RequestKind::put:
    case RequestKind::prepare: return Answer::unknown;
    case RequestKind::commit: return Answer::too_few_copies;
    default: return std::nullopt;
  }
}

/// Returns the reply, or in place of one that says done another answer of that kind. Refusals are sent as they are.
template <class AnswerOf>
Message revised(Message bytes, const AnswerOf& answer_of) {
  const Reply reply = Reply::decode(bytes).value();
  if (reply.kind == RequestKind::several) {
    std::vector<Message> parts;
    for (const MessageView part : reply.parts) parts.push_back(revised({part.begin(), part.end()}, answer_of));
    return encode_together(parts);
  }
  const auto answer = reply.answer == Answer::done ? answer_of(reply.kind) : std::nullopt;
  return answer ? Reply{.kind = reply.kind, .answer = *answer}.encode() : bytes;
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
  Reply reply = changes_.carry_out(request, bytes);
  // One that was made before is not held, nor looked at again when what is owed has been kept.
  const bool may_be_said = reply.answer != Answer::done || changes_.owes() || changes_.has_enough_copies();
  if (const auto answer = may_be_said ? std::nullopt : answer_with_too_few_copies(request.kind)) {
    reply = {.kind = request.kind, .answer = *answer};
  }
  return reply;
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
  const bool is_kept = changes_.sync();
  if (!std::exchange(holds_, false)) return;
  const bool may_be_said = is_kept && changes_.has_enough_copies();
  inbox.release([=](Message reply) {
    if (may_be_said) return reply;
    return revised(std::move(reply), is_kept ? answer_with_too_few_copies : answer_of_unkept);
  });
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
