#include "kv/client/request_source.h"

#include <utility>

#include "farside/base/error.h"

namespace farside::kv {

Outcome RequestSource::find(std::span<Search* const> searches, std::span<const Timestamp> candidates,
                            Deadline deadline) {
  for (auto& part : parts_) part.clear();
  for (Search* search : searches) parts_[server_of(search->id, requests_.servers())].push_back(search);
  Outcome outcome = ask(candidates, deadline);
  for (ServerNumber server = 0; server < parts_.size(); ++server) {
    if (parts_[server].empty()) continue;
    const Outcome of_one = take_reply(server, deadline);  // also after a failure: replies come in order
    if (outcome == Outcome::done) outcome = of_one;
  }
  if (std::exchange(refused_, false)) {
    throw UsageError({.tried = "get",
                      .on = "several keys",
                      .why = "what one server has of them is over 64 MiB",
                      .remedy = "get fewer or smaller values at once"});
  }
  return outcome;
}

Outcome RequestSource::ask(std::span<const Timestamp> candidates, Deadline deadline) {
  Request request = Request::by(caller_, RequestKind::get);
  request.candidates.assign(candidates.begin(), candidates.end());
  Outcome outcome = Outcome::done;
  for (ServerNumber server = 0; server < parts_.size(); ++server) {
    if (parts_[server].empty()) continue;
    request.keys.clear();
    for (const Search* search : parts_[server]) request.keys.push_back(search->key);
    const Outcome sent = requests_.send(server, request.encode(), deadline);
    if (sent != Outcome::done) {
      parts_[server].clear();
      outcome = sent;
    }
  }
  return outcome;
}

Outcome RequestSource::take_reply(ServerNumber server, Deadline deadline) {
  const auto received = requests_.receive(server, deadline);
  if (!received.done()) return received.status;
  const auto reply = Reply::decode(received.value);
  const auto& part = parts_[server];
  refused_ = refused_ || (reply && reply->answer == Answer::refused);
  if (refused_) return Outcome::done;
  if (!reply || reply->versions.size() != part.size()) return Outcome::peer_lost;  // it does not speak our language
  for (std::size_t i = 0; i < part.size(); ++i) {
    const ReplyVersion& version = reply->versions[i];
    Search& search = *part[i];
    search.forgotten = reply->forgotten;
    search.set_absent();
    if (version.generation == 0) continue;
    search.bytes.assign(version.record.begin(), version.record.end());
    const auto record = read_record(search.bytes, version.generation, search.key);
    if (!record) return Outcome::peer_lost;
    search.set_found(*record);
    search.place = RecordPlace::from_word(version.place);
  }
  return Outcome::done;
}

}  // namespace farside::kv
