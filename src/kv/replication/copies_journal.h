// copies_journal.h — the changes of a primary that are kept on a disk of its own and by its standby
// (shipping_journal.h), which has another disk.
//
// It guarantees: what was appended before a `sync` that succeeded is kept by both, or by the disk alone while there is
// no standby; and the disk says before a standby may be promoted that it is followed.
//
// Thread safety: one thread at a time, that of the channel.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "kv/protocol/rules.h"
#include "kv/replication/shipping_journal.h"
#include "kv/server/copy_on_disk.h"

namespace farside::kv {

class CopiesJournal final : public Journal {
 public:
  /// `disk` outlives this.
  CopiesJournal(CopyOnDisk& disk, std::unique_ptr<ShippingJournal> shipping, const ReplicaRules& rules)
      : disk_(disk), shipping_(std::move(shipping)), rules_(rules) {}

  /// The server begins to serve in that epoch, and is alone. Its disk says so.
  void begin_to_serve(std::uint64_t epoch) { epoch_ = epoch; }
  /// Before a standby that was taught counts as full. False: the disk cannot say that there is one.
  [[nodiscard]] bool claim_to_be_followed();
  /// As which both disks have the store; 0: this one fails, so it could not say that there is a standby.
  [[nodiscard]] std::uint64_t store_number() const { return disk_.takes_erasures() ? disk_.claim().store : 0; }

  void append(std::span<const std::byte> request, std::span<const TakenPlace> places) override;
  void append_gone(std::span<const GoneKey> keys) override { shipping_->append_gone(keys); }
  bool sync() override;
  [[nodiscard]] bool takes() const override { return disk_.takes() && shipping_->takes(); }
  [[nodiscard]] bool takes_erasures() const override { return disk_.takes_erasures() && shipping_->takes_erasures(); }
  [[nodiscard]] bool has_enough_copies() const override { return shipping_->has_enough_copies(); }
  [[nodiscard]] MemoryUse with_state(MemoryUse use) const override;
  bool step() override;

 private:
  void note_whether_alone();

  CopyOnDisk& disk_;
  const std::unique_ptr<ShippingJournal> shipping_;
  const ReplicaRules rules_;
  std::uint64_t epoch_ = 0;  ///< 0: it does not serve
};

}  // namespace farside::kv
