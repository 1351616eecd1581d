#include "kv/resp/reconnecting_session.h"

#include <string>
#include <utility>

#include "farside/base/error.h"
#include "farside/base/log.h"

#include "kv/protocol/time_limits.h"

namespace farside::kv {

Result<std::span<const Got>> ReconnectingSession::get_all(std::span<const std::string_view> keys) {
  renew_if_lost();
  return noted(opened_.session->get_all(keys));
}

PutOutcome ReconnectingSession::put_all(std::span<const Write> writes) { return opened_.session->put_all(writes); }

void ReconnectingSession::put_each(std::span<IndependentPut> puts, const PutEnded& ended) {
  renew_if_lost();
  opened_.session->put_each(puts, ended);
}

Result<Scanned> ReconnectingSession::scan(std::uint64_t cursor, std::string_view prefix, std::size_t about) {
  renew_if_lost();
  return noted(opened_.session->scan(cursor, prefix, about));
}

Result<std::vector<MemoryUse>> ReconnectingSession::use() {
  renew_if_lost();
  return noted(opened_.session->use());
}

std::vector<bool> ReconnectingSession::hear() {
  renew_if_lost();
  return opened_.session->hear();
}

void ReconnectingSession::renew_if_lost() {
  if (renewed_.valid()) {
    if (renewed_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) take_renewed();
    return;
  }
  if (!lost_ && !opened_.session->has_lost_server()) return;
  if (std::chrono::steady_clock::now() >= next_try_) renewed_ = std::async(std::launch::async, open_);
}

void ReconnectingSession::take_renewed() {
  next_try_ = std::chrono::steady_clock::now() + time_limits::kBetweenOpenings;
  try {
    Opened opened = renewed_.get();
    std::swap(opened_, opened);  // the old session ends before its owner
    lost_ = false;
    if (opened_.store != opened.store) {
      said_so_ = false;
      throw StoreReplaced();
    }
  } catch (const Error& error) {  // the old one reaches what there is
    return note_loss(error.what());
  }
  if (opened_.session->has_lost_server()) return note_loss("the others are used");
  if (std::exchange(said_so_, false)) log::warn("the store is reached again");
}

void ReconnectingSession::note_loss(const std::string& what) {
  if (!std::exchange(said_so_, true)) log::warn("a server of the store is lost: " + what);
}

}  // namespace farside::kv
