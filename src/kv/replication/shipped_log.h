// shipped_log.h — what a standby finds in its ring (shipping_ring.h), and does in its store.
//
// Thread safety: one thread at a time, that of the channel and the store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "farside/fabric/fabric.h"

#include "kv/protocol/messages.h"
#include "kv/protocol/rules.h"
#include "kv/replication/shipped_entry.h"
#include "kv/replication/shipping_ring.h"
#include "kv/server/copy_on_disk.h"
#include "kv/server/store.h"

namespace farside::kv {

class ShippedLog {
 public:
  /// Whether the primary has shipped everything from its start on, or has to ship a copy of what it has first.
  enum class Begins : std::uint8_t { full, empty };

  /// `ring` is new. Entries are executed in `store`, as by a recovery, and are kept by `disk`, if there is one, which
  /// was begun anew. Requires that `store` is not read in that time.
  ShippedLog(Channel& channel, const Region& ring, Store& store, Begins begins = Begins::full,
             const ReplicaRules& rules = {}, CopyOnDisk* disk = nullptr)
      : channel_(channel),
        region_(ring),
        ring_(ShippingRing::in(ring.bytes())),
        store_(store),
        disk_(disk),
        is_full_(begins == Begins::full),
        rules_(rules) {}

  /// Takes what has come, some of it. False: there was nothing.
  bool take_some();
  /// From now on a disk that fails is no flaw: the store may be the only copy, and must not be lost for its disk.
  void bear_with_the_disk() noexcept { needs_disk_ = false; }
  /// The store has all that the primary's has, but for what is still in the ring.
  [[nodiscard]] bool is_full() const noexcept { return is_full_; }
  /// Since which the primary serves.
  [[nodiscard]] std::uint64_t epoch() const noexcept { return epoch_; }
  /// False: something came that cannot be done, or is no change. The primary can see that in `taken`; what the store
  /// has is of no use any more.
  [[nodiscard]] bool is_sound() const noexcept { return flaw_.empty(); }
  /// Why not; empty: it is.
  [[nodiscard]] std::string_view flaw() const noexcept { return flaw_; }

 private:
  static constexpr unsigned kFramesAtOnce = 256;

  [[nodiscard]] bool take_frame();
  void note_disk(bool is_kept);
  void carry_out();
  [[nodiscard]] Answer carry_out(const ShippedEntry& entry, const Request& request);
  [[nodiscard]] bool note_on_disk(const ShippedEntry& entry, const Request& request);

  Channel& channel_;
  const Region& region_;
  const ShippingRing ring_;
  Store& store_;
  CopyOnDisk* const disk_;
  bool is_full_;
  bool is_begun_ = false;  ///< on the disk
  bool needs_disk_ = true;
  const ReplicaRules rules_;
  std::uint64_t position_ = 0;
  std::uint64_t epoch_ = 0;  ///< what the end of a copy said; 0, if none had to come
  Message piece_;
  Message entry_;  ///< as far as it has come
  std::string_view flaw_;
};

}  // namespace farside::kv
