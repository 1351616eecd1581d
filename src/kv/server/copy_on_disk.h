// copy_on_disk.h — a server's copy of its partition on a disk of its own, where there are two copies. What keeps it is
// an adapter's business (src/kv/journal).
//
// Thread safety: one thread at a time, that of the store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kv/protocol/copy_claim.h"
#include "kv/server/store.h"

namespace farside::kv {

class CopyOnDisk {
 public:
  virtual ~CopyOnDisk() = default;
  CopyOnDisk(const CopyOnDisk&) = delete;
  CopyOnDisk& operator=(const CopyOnDisk&) = delete;

  /// Makes `store`, which is empty and outlives this, what the copy has, as a primary that has no standby. Returns its
  /// epoch, which is a new one. Throws Error.
  [[nodiscard]] virtual std::uint64_t recover(Store& store) = 0;
  /// Another copy may be begun, of `store`, which is empty and outlives this. Touches no disk.
  virtual void prepare_to_copy(Store& store) = 0;
  /// Begins that copy, of the store of that number, whose primary serves in `epoch`. The former one is kept until the
  /// new one is claimed, and claims from now on that the other one is served. False: it cannot be, the former one is of
  /// another store, or it claims to be a primary's of that epoch or a later one.
  [[nodiscard]] virtual bool begin_copy(std::uint64_t store_number, std::uint64_t epoch) = 0;

  // After `recover` or `begin_copy`:

  /// Notes a change: the encoded Request that made it.
  virtual void append(std::span<const std::byte> request) = 0;
  /// Notes a version that the primary had: a put of one key (StoreCopy).
  virtual void append_version(std::span<const std::byte> request) = 0;
  /// Notes what the primary had forgotten.
  virtual void append_forgotten(const Store::Forgotten& forgotten) = 0;
  /// Keeps what was noted: it outlives this process, and where the policy says so the machine, but not before it was
  /// first claimed. False: it cannot be, and is tried again by the next call.
  [[nodiscard]] virtual bool keep() = 0;

  [[nodiscard]] virtual CopyClaim claim() const = 0;
  /// After true the disk has the claim, and what had been noted when it was first made. After false that is not known,
  /// and nothing more is kept.
  [[nodiscard]] virtual bool claim(CopyStanding standing, std::uint64_t epoch) = 0;

  // At any time, as of a Journal:

  [[nodiscard]] virtual bool takes() const = 0;
  [[nodiscard]] virtual bool takes_erasures() const = 0;
  [[nodiscard]] virtual MemoryUse with_state(MemoryUse use) const = 0;
  virtual bool step() = 0;

 protected:
  CopyOnDisk() = default;
};

}  // namespace farside::kv
