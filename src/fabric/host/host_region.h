// host_region.h — a region in a memory file that peers of this host map, and the mapping of a peer's region.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "farside/base/fd.h"
#include "farside/fabric/region.h"

#include "base/mutex.h"
#include "fabric/host/address.h"
#include "fabric/host/region_header.h"
#include "fabric/ucx/engine.h"

namespace farside {

/// The regions of this process. A thread that learns of an event that no word shows, such as a loss, wakes all waiters.
class RegionSet {
 public:
  void add(RegionHeader& header);
  void remove(RegionHeader& header);
  void wake_all();

 private:
  Mutex mutex_;
  std::set<RegionHeader*> headers_ GUARDED_BY(mutex_);
};

class HostRegion final : public Region {
 public:
  /// Offers it through `ucx` as well, unless that is null. Throws Error when the machine has not that much memory.
  [[nodiscard]] static std::unique_ptr<HostRegion> create(std::string name, std::uint64_t bytes, RegionSet& regions,
                                                          UcxEngine* ucx);
  ~HostRegion() override;

  [[nodiscard]] std::string handle() const override;
  void wake() const override { wake_sleepers(header()); }
  [[nodiscard]] RegionHeader& header() const noexcept;
  [[nodiscard]] const Fd& file() const noexcept { return file_; }
  /// See host.h.
  void populate(std::uint64_t offset, std::uint64_t bytes) const;
  void release(std::uint64_t offset, std::uint64_t bytes) const;

 private:
  HostRegion(std::string name, std::uint64_t bytes, Fd file, Mapping mapping, RegionSet& regions, UcxEngine* ucx);

  Fd file_;
  Mapping mapping_;
  UcxEngine* const ucx_;                   ///< null without UCX
  std::unique_ptr<UcxMemory> ucx_memory_;  ///< null without UCX
  RegionSet& regions_;
};

class DirectAccess;

/// The mappings of peers' regions, so that those of a lost peer can be let go while others may still look at them.
class AccessSet {
 public:
  void add(DirectAccess& access);
  void remove(DirectAccess& access);
  void blank_lost();

 private:
  Mutex mutex_;
  std::set<DirectAccess*> accesses_ GUARDED_BY(mutex_);
};

/// The way to a region of a peer on this host. Valid while `peer_word` is what it was at the start.
class DirectAccess final : public RemoteAccess {
 public:
  /// Throws Error when `handle` does not name a live region of `process`.
  DirectAccess(const ProcessId& process, const RegionHandle& handle, const std::atomic<std::uint32_t>& peer_word,
               AccessSet& accesses);
  ~DirectAccess() override;

  [[nodiscard]] bool lost() const noexcept { return peer_word_.load(std::memory_order_relaxed) != connected_; }
  /// The peer's word at the start; never 0.
  [[nodiscard]] std::uint32_t life() const noexcept { return connected_; }
  [[nodiscard]] RegionHeader& header() const noexcept;
  [[nodiscard]] std::byte* user_bytes() const noexcept { return mapping_.base() + kRegionHeaderBytes; }

  /// Gives the memory of a peer that is lost back to the machine. The addresses stay taken: a thread that is in the
  /// middle of a copy finds zeros, and then that the peer is lost.
  void blank();

 private:
  const std::atomic<std::uint32_t>& peer_word_;
  std::uint32_t connected_;
  AccessSet& accesses_;
  Mapping mapping_;
  bool blank_ = false;  ///< guarded by accesses_
};

}  // namespace farside
