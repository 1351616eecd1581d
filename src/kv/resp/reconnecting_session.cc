#include "kv/resp/reconnecting_session.h"

#include <algorithm>
#include <string>
#include <utility>

#include "farside/base/error.h"
#include "farside/base/log.h"

namespace farside::kv {

namespace {

// A node that died is back sooner. A try that lasts, since a whole machine is gone, takes time from the other servers'
// keys: a tenth at most.
constexpr auto kPauseBetweenTries = std::chrono::seconds(1);
constexpr int kPausesOfATry = 10;

}  // namespace

Outcome ReconnectingSession::get_all(std::span<const std::string_view> keys, std::vector<Got>& got) {
  renew_if_lost(read_doubted_);
  return noted(opened_.session->get_all(keys, got));
}

PutOutcome ReconnectingSession::put_all(std::span<const Write> writes) {
  return noted(opened_.session->put_all(writes));
}

void ReconnectingSession::put_each(std::span<IndependentPut> puts) {
  renew_if_lost(put_doubted_);
  opened_.session->put_each(puts);
  for (const IndependentPut& put : puts) (void)noted(put.outcome);
}

Outcome ReconnectingSession::scan(std::uint64_t cursor, std::string_view prefix, std::size_t about, Scanned& scanned) {
  renew_if_lost(read_doubted_);
  return noted(opened_.session->scan(cursor, prefix, about, scanned));
}

Outcome ReconnectingSession::use(std::vector<MemoryUse>& servers) {
  renew_if_lost(read_doubted_);
  return noted(opened_.session->use(servers));
}

void ReconnectingSession::renew_if_lost(bool& doubted) {
  if (std::exchange(doubted, false)) lost_ = is_server_lost() || lost_;
  const auto began = std::chrono::steady_clock::now();
  if (!lost_ || began < next_try_) return;
  const auto set_next_try = [&](std::chrono::steady_clock::time_point end) {
    next_try_ = end + std::max<std::chrono::steady_clock::duration>(kPauseBetweenTries, kPausesOfATry * (end - began));
  };
  try {
    renew();
    set_next_try(std::chrono::steady_clock::now());
    if (lost_) note_loss("the others are used");
  } catch (const Error& error) {  // the old one reaches what there is
    set_next_try(std::chrono::steady_clock::now());
    note_loss(error.what());
  }
}

void ReconnectingSession::note_loss(const std::string& what) {
  if (!std::exchange(said_so_, true)) log::warn("a server of the store is lost: " + what);
}

bool ReconnectingSession::is_server_lost() {
  std::vector<MemoryUse> servers;
  return opened_.session->use(servers) == Outcome::peer_lost;
}

void ReconnectingSession::renew() {
  Opened opened = open_();
  std::swap(opened_, opened);  // the old session ends before its owner
  if (opened_.store != opened.store) {
    lost_ = said_so_ = false;
    throw StoreReplaced();
  }
  lost_ = is_server_lost();  // a session is opened without servers that do not answer
  if (!lost_ && std::exchange(said_so_, false)) log::warn("the store is reached again");
}

Outcome ReconnectingSession::noted(Outcome outcome) {
  lost_ = lost_ || outcome == Outcome::peer_lost;
  read_doubted_ = outcome == Outcome::timed_out || outcome == Outcome::link_lost;
  return outcome;
}

PutOutcome ReconnectingSession::noted(PutOutcome outcome) {
  put_doubted_ = put_doubted_ || outcome == PutOutcome::unknown;
  return outcome;
}

}  // namespace farside::kv
