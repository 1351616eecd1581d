// slot_map.h — at which slots of the space the pages of one process are, and page I/O objects that go there.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "far/daemon/rules.h"
#include "far/daemon/slots.h"

namespace farside::far {

/// Thread safety: every call, from any thread.
class SlotMap {
 public:
  SlotMap(Slots& slots, PageNumber pages, DaemonRules rules);
  ~SlotMap();
  SlotMap(const SlotMap&) = delete;
  SlotMap& operator=(const SlotMap&) = delete;

  using List = std::array<Slot, PageIo::kPages>;
  static constexpr Slot kNone = ~Slot{0};

  /// Returns in `slots` where the pages are, or kNone. The slots stay until they are released again, whatever becomes
  /// of the pages.
  void hold(std::span<const PageNumber> pages, List& slots);
  /// The same of slots that may be written over. False when the space is full.
  [[nodiscard]] bool hold_to_store(std::span<const PageNumber> pages, List& slots);
  void release(std::span<const Slot> held);

  void erase(PageNumber first, PageNumber count);
  /// From now on `other` shares the slots that these pages have here.
  void share_with(SlotMap& other, std::span<const PageNumber> pages);
  /// Which of the pages have one.
  [[nodiscard]] std::vector<bool> stored(PageNumber first, PageNumber count);

 private:
  void set(PageNumber page, Slot slot);
  [[nodiscard]] Slot get(PageNumber page) const { return slots_of_[page] - 1; }

  Slots& slots_;
  const DaemonRules rules_;
  LazyArray<Slot> slots_of_;  ///< one more than the slot; 0: none. Guarded by Slots::Access
  PageNumber end_ = 0;        ///< no page from here on has one
};

/// One that carries a process's pages to their slots.
class SlotPageIo final : public PageIo {
 public:
  SlotPageIo(SlotMap& map, std::unique_ptr<PageIo> to_slots) : map_(map), to_slots_(std::move(to_slots)) {}

  [[nodiscard]] std::byte* buffer() override { return to_slots_->buffer(); }
  [[nodiscard]] Status fetch(std::span<const PageNumber> pages) override;
  [[nodiscard]] Status store(std::span<const PageNumber> pages) override;
  [[nodiscard]] Status erase(PageNumber first, PageNumber count) override;

 private:
  SlotMap& map_;
  const std::unique_ptr<PageIo> to_slots_;
};

}  // namespace farside::far
