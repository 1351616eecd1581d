#include "kv/resp/lasting_session.h"

#include <algorithm>
#include <utility>

#include "farside/base/error.h"

namespace farside::kv {

namespace {

// A node that died is back sooner. A try that lasts, since a whole machine is gone, takes time from the other servers'
// keys: a tenth at most.
constexpr auto kPauseBetweenTries = std::chrono::seconds(1);
constexpr int kPausesOfATry = 10;

}  // namespace

Outcome LastingSession::get_all(std::span<const std::string_view> keys, std::vector<Got>& got) {
  renew_if_lost(read_doubted_);
  return noted(session_->get_all(keys, got));
}

PutOutcome LastingSession::put_all(std::span<const Write> writes) { return noted(session_->put_all(writes)); }

void LastingSession::put_each(std::span<IndependentPut> puts) {
  renew_if_lost(put_doubted_);
  session_->put_each(puts);
  for (const IndependentPut& put : puts) (void)noted(put.outcome);
}

Outcome LastingSession::scan(std::uint64_t cursor, std::string_view prefix, std::size_t about, Scanned& scanned) {
  renew_if_lost(read_doubted_);
  return noted(session_->scan(cursor, prefix, about, scanned));
}

Outcome LastingSession::use(std::vector<MemoryUse>& servers) {
  renew_if_lost(read_doubted_);
  return noted(session_->use(servers));
}

void LastingSession::renew_if_lost(bool& doubted) {
  if (std::exchange(doubted, false)) {
    std::vector<MemoryUse> servers;
    lost_ = session_->use(servers) == Outcome::peer_lost || lost_;
  }
  const auto now = std::chrono::steady_clock::now();
  if (!lost_ || now < next_try_) return;
  try {
    session_ = open_();
    lost_ = false;
  } catch (const Error&) {  // it is not back: the old one reaches the other servers
  }
  const auto end = std::chrono::steady_clock::now();
  next_try_ = end + std::max<std::chrono::steady_clock::duration>(kPauseBetweenTries, kPausesOfATry * (end - now));
}

Outcome LastingSession::noted(Outcome outcome) {
  lost_ = lost_ || outcome == Outcome::peer_lost;
  read_doubted_ = outcome == Outcome::timed_out;
  return outcome;
}

PutOutcome LastingSession::noted(PutOutcome outcome) {
  put_doubted_ = put_doubted_ || outcome == PutOutcome::unknown;
  return outcome;
}

}  // namespace farside::kv
