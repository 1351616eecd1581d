#include "kv_baselines/transports/stream_requests.h"

#include <algorithm>
#include <string>
#include <utility>

#include "farside/base/error.h"

namespace farside::kv_baselines {

StreamRequests::StreamRequests(const Fabric& fabric, std::vector<std::unique_ptr<Stream>> streams) : fabric_(fabric) {
  for (auto& stream : streams) connections_.push_back({FramedStream(std::move(stream))});
}

Outcome StreamRequests::send(kv::ServerNumber server, std::span<const std::byte> request, Deadline deadline) {
  kv::check_request_bytes(server, request.size());
  Connection& connection = connections_.at(server);
  FramedStream& stream = connection.stream;
  stream.send(request);
  connection.awaited.push_back(true);
  while (stream.has_unsent() && !stream.is_lost() && fabric_.now() < deadline.at) {
    stream.await_room(deadline);
    while (stream.receive(kAtOnce)) connection.take_replies();  // a server that waits for room itself takes nothing
    stream.flush();
  }
  if (!stream.has_unsent() && !stream.is_lost()) return Outcome::done;
  connection.awaited.back() = false;
  return stream.is_lost() ? Outcome::peer_lost : Outcome::timed_out;  // what is left goes ahead of the next request
}

Result<kv::Message> StreamRequests::receive(kv::ServerNumber server, Deadline deadline) {
  Connection& connection = connections_.at(server);
  if (connection.replies.empty() && connection.oldest_awaited() == connection.awaited.end()) {
    throw UsageError({"receive a reply", "server " + std::to_string(server), "no request is unanswered", "send one"});
  }
  while (connection.replies.empty()) {
    if (connection.stream.receive(deadline)) {
      connection.take_replies();
      continue;
    }
    const bool lost = connection.stream.is_lost();
    if (!lost && fabric_.now() < deadline.at) continue;
    *connection.oldest_awaited() = false;
    return {lost ? Outcome::peer_lost : Outcome::timed_out, {}};
  }
  kv::Message reply = std::move(connection.replies.front());
  connection.replies.pop_front();
  return {Outcome::done, std::move(reply)};
}

bool StreamRequests::has_reply(kv::ServerNumber server) {
  Connection& connection = connections_.at(server);
  while (connection.stream.receive(kAtOnce)) connection.take_replies();
  if (!connection.replies.empty()) return true;
  return connection.stream.is_lost() && connection.oldest_awaited() != connection.awaited.end();
}

void StreamRequests::Connection::take_replies() {
  while (const auto reply = stream.take()) {
    if (awaited.empty()) return stream.give_up();  // no server answers what was not asked
    if (awaited.front()) replies.emplace_back(reply->begin(), reply->end());
    awaited.pop_front();
  }
}

std::deque<bool>::iterator StreamRequests::Connection::oldest_awaited() { return std::ranges::find(awaited, true); }

}  // namespace farside::kv_baselines
