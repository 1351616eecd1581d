// journal.h — what a server's store outlives its process by: the changes made to it, one after the other, kept
// somewhere. What keeps them is an adapter's business (src/kv/journal).
//
// Thread safety: one thread at a time, that of the store.
#pragma once

#include <cstddef>
#include <span>

#include "kv/server/store.h"

namespace farside::kv {

class Journal {
 public:
  virtual ~Journal() = default;
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// Notes a change: the encoded Request that made it, and where the store has put the versions that it prepared.
  virtual void append(std::span<const std::byte> request, std::span<const TakenPlace> places) = 0;
  /// Notes keys of which the store has given back everything. What is appended later may lie in their places.
  virtual void append_gone(std::span<const GoneKey> keys) { (void)keys; }
  /// Keeps what was appended. False: it could not, so no client may be told of it; the next call tries again.
  virtual bool sync() = 0;
  /// False: there is no room for more changes before the next sync, or for a while, or never again.
  [[nodiscard]] virtual bool takes() const = 0;
  /// The same for changes that make room, or end a transaction: an amount of them is taken when others are not.
  [[nodiscard]] virtual bool takes_erasures() const { return takes(); }
  /// False: what is kept has fewer copies than it must have. Then no client is told that a change is done.
  [[nodiscard]] virtual bool has_enough_copies() const { return true; }
  /// Returns `use` with the state of the disk, or of the copies.
  [[nodiscard]] virtual MemoryUse with_state(MemoryUse use) const { return use; }
  /// Does what is due now and then, for a few milliseconds at most, when all that was appended is kept. True if there
  /// was anything to do.
  virtual bool step() = 0;

 protected:
  Journal() = default;
};

}  // namespace farside::kv
