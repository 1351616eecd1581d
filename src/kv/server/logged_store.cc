#include "kv/server/logged_store.h"

#include <algorithm>

#include "base/assert.h"

namespace farside::kv {

namespace {

Reply reply_to(const Request& request, const Answered& answered) {
  return {.kind = request.kind, .answer = answered.answer, .newest = answered.newest};
}

}  // namespace

void LoggedStore::note(const Request& request) {
  // Every change bears it to the journal. One that is lost is told again, or leaves a mark unset.
  if (request.settled != 0) store_.settle({request.settled, request.session});
}

Reply LoggedStore::carry_out(const Request& request, std::span<const std::byte> bytes) {
  if (lacks_copies(request)) return reply_to(request, {Answer::too_few_copies, {}});
  const bool takes_it = !is_refused(request) && has_room(request) && (!depends_on_unkept(request) || sync());
  return takes_it ? change(request, bytes) : reply_to(request, {Answer::unwritable, {}});
}

// One that was prepared before is answered as before.
bool LoggedStore::is_refused(const Request& request) const {
  if (refused_.empty() || request.kind != RequestKind::prepare || store_.has(request.timestamp)) return false;
  return std::ranges::any_of(request.servers,
                             [this](ServerNumber server) { return server < refused_.size() && refused_[server]; });
}

// The ends of what was prepared before are carried out: other servers wait for them.
bool LoggedStore::lacks_copies(const Request& request) const {
  const bool begins = request.kind == RequestKind::prepare || request.kind == RequestKind::put;
  return begins && !has_enough_copies() && !store_.has(request.timestamp);
}

// A standby takes no more than its ring holds before a sync. While syncs fail each costs its timeout, so that only the
// one at the end of a round of requests tries again.
bool LoggedStore::has_room(const Request& request) {
  return takes(request) || (owes_ && !sync_failed_ && sync() && takes(request));
}

bool LoggedStore::takes(const Request& request) const {
  if (journal_ == nullptr || journal_->takes()) return true;
  return std::ranges::all_of(request.writes, &Write::erase) && journal_->takes_erasures();
}

MemoryUse LoggedStore::use() const { return journal_ == nullptr ? store_.use() : journal_->with_state(store_.use()); }

Reply LoggedStore::change(const Request& request, std::span<const std::byte> bytes) {
  Answered answered{Answer::done, {}};
  switch (request.kind) {
    case RequestKind::prepare: answered = prepare(request, bytes); break;
    case RequestKind::put: answered = put(request, bytes); break;
    case RequestKind::commit:
      answered = store_.commit(request.timestamp);
      if (answered.answer == Answer::done) append(bytes);
      break;
    case RequestKind::abort:
      store_.abort(request.timestamp);
      append(bytes);
      break;
    case RequestKind::fate: {
      Reply reply = reply_to(request, answered);
      reply.fate = store_.fate_or_bar(request.timestamp);
      if (reply.fate == Fate::aborted) append(RequestKind::abort, request.timestamp);
      return reply;
    }
    default: answered.answer = Answer::refused;
  }
  return reply_to(request, answered);
}

// A repeated request is in the journal already.
Answered LoggedStore::prepare(const Request& request, std::span<const std::byte> bytes) {
  const bool is_repeated = journal_ != nullptr && store_.has(request.timestamp);
  const Answered answered = store_.prepare({request.timestamp, request.siblings, request.servers, request.writes});
  if (answered.answer == Answer::done && !is_repeated) append_prepared(bytes, request.timestamp);
  return answered;
}

Answered LoggedStore::put(const Request& request, std::span<const std::byte> bytes) {
  if (journal_ == nullptr) return store_.put(request.timestamp, request.writes, request.siblings);
  const bool is_repeated = store_.has(request.timestamp);
  Answered answered = store_.prepare({request.timestamp, request.siblings, {}, request.writes});
  if (answered.answer != Answer::done || is_repeated) return answered;
  append_prepared(bytes, request.timestamp);
  unkept_puts_.push_back(request.timestamp);
  for (const Write& write : request.writes) {
    bool& goes = unkept_keys_[key_id(write.key)];
    goes = goes || write.erase || write.expires_ns != 0;
  }
  answered.newest = std::max(answered.newest, request.timestamp);
  return answered;
}

void LoggedStore::commit(const Timestamp& transaction) {
  if (!takes_ends() || (!is_kept(transaction) && !sync())) return;  // it stays prepared, and is asked about again
  if (store_.commit(transaction).answer == Answer::done) append(RequestKind::commit, transaction);
}

void LoggedStore::abort(const Timestamp& transaction) {
  if (!takes_ends() || (!is_kept(transaction) && !sync())) return;
  store_.abort(transaction);
  append(RequestKind::abort, transaction);
}

// Readers need not remember a version with this mark, so the commit is kept before they see it. Otherwise, too, what it
// erased, or what has expired of it, would come back at recovery, and stay until a client asks again.
void LoggedStore::note_everywhere(const Timestamp& transaction) {
  if (!sync()) return;
  store_.note_everywhere(transaction);
  if (takes_ends()) append(RequestKind::use, transaction);
}

bool LoggedStore::sync() {
  if (!owes_) return true;
  assert_that(journal_ != nullptr, "nothing is owed without a journal");
  sync_failed_ = !journal_->sync();
  if (sync_failed_) return false;
  owes_ = false;
  for (const Timestamp& put : unkept_puts_) {
    const Answered committed = store_.commit(put);
    assert_that(committed.answer == Answer::done, "a put stays prepared until it is kept");
  }
  unkept_.clear();
  unkept_puts_.clear();
  unkept_keys_.clear();
  return true;
}

// True if the transaction's own changes are not kept yet, or those of a key that a conditional write compares with, or
// an erasure above a write: replay would find the key gone, and not know that.
bool LoggedStore::depends_on_unkept(const Request& request) const {
  if (!is_kept(request.timestamp)) return true;
  return std::ranges::any_of(request.writes, [this](const Write& write) {
    const auto unkept = unkept_keys_.find(key_id(write.key));
    return unkept != unkept_keys_.end() && (write.expected || unkept->second);
  });
}

bool LoggedStore::step() {
  constexpr std::size_t kManyGone = 1024;
  if (journal_ == nullptr || owes_) return false;
  if (store_.gone_keys() >= kManyGone) append_gone_keys();
  return !owes_ && journal_->step();
}

void LoggedStore::append_prepared(std::span<const std::byte> bytes, const Timestamp& transaction) {
  if (journal_ == nullptr) return;
  append_gone_keys();
  append(bytes, store_.taken_places());
  unkept_.insert(transaction);
}

void LoggedStore::append(std::span<const std::byte> bytes, std::span<const TakenPlace> places) {
  if (journal_ == nullptr) return;
  journal_->append(bytes, places);
  owes_ = true;
}

// Before what may lie in their places.
void LoggedStore::append_gone_keys() {
  constexpr std::size_t kMaxAtOnce = 4096;
  const std::vector<GoneKey> gone = store_.take_gone_keys();
  for (std::span<const GoneKey> rest(gone); !rest.empty(); rest = rest.subspan(std::min(kMaxAtOnce, rest.size()))) {
    journal_->append_gone(rest.first(std::min(kMaxAtOnce, rest.size())));
    owes_ = true;
  }
}

void LoggedStore::append(RequestKind kind, const Timestamp& transaction) {
  if (journal_ == nullptr) return;
  Request request;
  request.kind = kind;
  request.timestamp = transaction;
  append(request.encode());
}

}  // namespace farside::kv
