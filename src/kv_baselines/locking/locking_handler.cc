#include "kv_baselines/locking/locking_handler.h"

namespace farside::kv_baselines {

kv::Message LockingHandler::answer(std::span<const std::byte> bytes) {
  const auto request = kv::Request::decode(bytes);
  if (!request) return {};
  kv::Reply reply;
  reply.kind = request->kind;
  switch (request->kind) {
    case kv::RequestKind::get: get(*request, reply); break;
    case kv::RequestKind::prepare: prepare(*request, reply); break;
    case kv::RequestKind::commit: commit(request->session); break;
    case kv::RequestKind::abort:
      prepared_.erase(request->session);
      locks_.release(request->session);
      break;
    default: return {};
  }
  return reply.encode();
}

void LockingHandler::get(const kv::Request& request, kv::Reply& reply) {
  for (const std::string_view key : request.keys) {
    if (!locks_.take(request.session, kv::key_id(key), LockTable::Mode::shared)) {
      reply.versions.clear();
      reply.answer = kv::Answer::refused;
      return;
    }
    const auto found = values_.find(std::string(key));
    reply.versions.emplace_back();
    if (found != values_.end()) reply.versions.back() = {1, 0, std::as_bytes(std::span(found->second))};
  }
}

void LockingHandler::prepare(const kv::Request& request, kv::Reply& reply) {
  for (const kv::Write& write : request.writes) {
    if (locks_.take(request.session, kv::key_id(write.key), LockTable::Mode::exclusive)) continue;
    reply.answer = kv::Answer::refused;
    return;
  }
  auto& prepared = prepared_[request.session];
  for (const kv::Write& write : request.writes) prepared.emplace_back(write.key, write.value);
}

void LockingHandler::commit(std::uint64_t session) {
  if (const auto found = prepared_.find(session); found != prepared_.end()) {
    for (auto& [key, value] : found->second) values_[std::move(key)] = std::move(value);
    prepared_.erase(found);
  }
  locks_.release(session);
}

}  // namespace farside::kv_baselines
