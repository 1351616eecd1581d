// logged_store.h — a store whose changes outlive its process: each is appended to a journal, and no client is told of
// it before the journal has kept it.
//
// It guarantees: replies that were sent after a `sync` that succeeded stay true after a recovery from the journal; a
// put is not seen by a reader before it is kept. (A commit may be: all servers have kept that they are prepared, so
// nothing but a commit can come of it.)
//
// Thread safety: one thread at a time, that of the store.
#pragma once

#include <cstddef>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "kv/protocol/messages.h"
#include "kv/protocol/timestamp.h"
#include "kv/server/journal.h"
#include "kv/server/store.h"

namespace farside::kv {

class LoggedStore {
 public:
  /// Without a journal nothing outlives the process, and everything is done at once.
  explicit LoggedStore(Store& store, Journal* journal = nullptr) : store_(store), journal_(journal) {
    if (journal_ != nullptr) store_.note_gone_keys();
  }

  /// Settles what the caller says is settled.
  void note(const Request& request);
  /// Carries out what changes something: prepare, commit, abort, put, fate. `bytes` is the request as it came. While
  /// `owes` holds, the reply is not to be sent before a `sync`.
  [[nodiscard]] Reply carry_out(const Request& request, std::span<const std::byte> bytes);
  /// For the terminator.
  void commit(const Timestamp& transaction);
  void abort(const Timestamp& transaction);
  void note_everywhere(const Timestamp& transaction);

  /// Something was changed that is not kept yet.
  [[nodiscard]] bool owes() const noexcept { return owes_; }
  /// False: what was changed may be lost, and is tried again by the next call.
  bool sync();
  /// From now on a transaction is not prepared that has part in one of these servers, by number: too much is prepared
  /// that waits for them. Such a prepare is answered `unwritable`.
  void refuse_prepares_with(std::vector<bool> servers) { refused_ = std::move(servers); }
  /// False: what was changed may be kept, and is not to be acknowledged.
  [[nodiscard]] bool has_enough_copies() const { return journal_ == nullptr || journal_->has_enough_copies(); }
  /// Does the journal's periodic work. True if there was anything to do.
  bool step();

  [[nodiscard]] Store& store() noexcept { return store_; }
  [[nodiscard]] MemoryUse use() const;

 private:
  [[nodiscard]] Reply change(const Request& request, std::span<const std::byte> bytes);
  [[nodiscard]] Answered prepare(const Request& request, std::span<const std::byte> bytes);
  [[nodiscard]] Answered put(const Request& request, std::span<const std::byte> bytes);
  [[nodiscard]] bool is_kept(const Timestamp& transaction) const { return !unkept_.contains(transaction); }
  [[nodiscard]] bool depends_on_unkept(const Request& request) const;
  [[nodiscard]] bool is_refused(const Request& request) const;
  [[nodiscard]] bool lacks_copies(const Request& request) const;
  /// May sync.
  [[nodiscard]] bool has_room(const Request& request);
  [[nodiscard]] bool takes(const Request& request) const;
  [[nodiscard]] bool takes_ends() const { return journal_ == nullptr || journal_->takes_erasures(); }
  /// Appends the request that was just prepared.
  void append_prepared(std::span<const std::byte> bytes, const Timestamp& transaction);
  void append(std::span<const std::byte> bytes, std::span<const TakenPlace> places = {});
  void append(RequestKind kind, const Timestamp& transaction);
  void append_gone_keys();

  Store& store_;
  Journal* const journal_;
  // Transactions that are prepared and not kept yet.
  std::unordered_set<Timestamp, TimestampHash> unkept_;
  std::vector<Timestamp> unkept_puts_;  // of them: to be committed when they are kept
  std::unordered_map<KeyId, bool, KeyIdHash>
      unkept_keys_;            // of those; whether one erases, or will have expired when it is done again
  std::vector<bool> refused_;  // by server; empty: none
  bool owes_ = false;
  bool sync_failed_ = false;  ///< the last one
};

}  // namespace farside::kv
