// placement.h — what a prepare takes of a server's memory: found out, and taken, before anything is changed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kv/server/cells.h"

namespace farside::kv {

/// One write, and where it goes.
struct PlacedWrite {
  const Write* write;
  KeyId key;
  std::uint64_t record_bytes;
  std::uint64_t record = 0;              ///< its offset
  KeyVersions* noted = nullptr;          ///< what is noted of the key; null: nothing
  std::optional<IndexWord> cell{};       ///< none: there is none yet
  bool is_new = false;                   ///< the cell
  std::optional<FoundVersion> newest{};  ///< that is committed
  bool overwrites = false;               ///< it: only when rules are broken
};

class Placement {
 public:
  Placement(Cells& cells, Index& index, Heap& heap, const KvRules& rules)
      : cells_(cells), index_(index), heap_(heap), rules_(rules) {}

  /// One for each key. Takes nothing.
  void look(const Prepare& part, std::vector<PlacedWrite>& writes);
  /// All that they need, or nothing.
  [[nodiscard]] bool take(std::vector<PlacedWrite>& writes);
  /// The same, where another store has them: one place for each. False: something else lies there.
  [[nodiscard]] bool take_at(std::vector<PlacedWrite>& writes, std::span<const TakenPlace> places);
  /// The places that were taken for `write`.
  [[nodiscard]] TakenPlace place_of(const PlacedWrite& write) const;

 private:
  void look(PlacedWrite& write);
  [[nodiscard]] bool take(PlacedWrite& write, Heap::For purpose);
  [[nodiscard]] bool take_at(PlacedWrite& write, const TakenPlace& place);
  void give_back(const PlacedWrite& write);

  Cells& cells_;
  Index& index_;
  Heap& heap_;
  const KvRules& rules_;
};

}  // namespace farside::kv
