// store_copy.h — all that a store has, as requests that make it again elsewhere (replay.h), a little at a time while
// changes go on.
//
// Prepared versions, and the ends of transactions, come when it begins; then the newest committed version of each key,
// as it is when its turn comes. Changes since the beginning are kept beside it, each in its place among the requests:
// what they have made already is left as it is.
//
// Thread safety: one thread at a time, that of the store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kv/protocol/messages.h"
#include "kv/server/store.h"

namespace farside::kv {

class StoreCopy {
 public:
  /// A change, or one committed version (a put of one key; `about` says what its mark says of its being settled); and
  /// where the store has the versions.
  enum class Part : std::uint8_t { change, version };
  using Take = std::function<void(Part part, const Request& request, std::span<const TakenPlace> places)>;

  /// `take` is called by all functions.
  StoreCopy(const Store& store, Take take) : store_(store), take_(std::move(take)) {}

  /// Once, at first, and before anything else is changed.
  void begin();
  /// The versions of about so many keys. False: that was all, and then which keys and sessions are forgotten is known
  /// (Store::all_forgotten), some of which were gone before their turn came.
  bool go_on(std::size_t about);
  /// Returns the share that go_on has been through, in thousandths.
  [[nodiscard]] std::uint16_t permille() const;

 private:
  std::vector<KeptVersion> add_prepared();
  void add_version(const KeptVersion& version);
  void add_ended();

  const Store& store_;
  const Take take_;
  std::uint64_t cursor_ = 0;  // of the index
  std::uint64_t places_ = 1;  // of it
};

}  // namespace farside::kv
