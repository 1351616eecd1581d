// striped_space.h — a space whose slabs lie on several nodes (docs/protocols/far.md).
//
// Guarantee: what an I/O context's write reported done is found by every read that begins later, as long as one of the
// nodes lives that have a copy. A write that timed out is over before the next one to the same slabs begins, of any I/O
// context.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "farside/far/space.h"

#include "far/protocol/slab_map.h"

namespace farside::far {

class StripedSpace final : public Space {
 public:
  /// `self` is the loopback of `fabric`. Nodes are added to slabs().
  StripedSpace(Fabric& fabric, PeerId self, const SpaceShape& shape, const FarRules& rules = {},
               const AnswerLimits& limits = {})
      : map_(fabric, self, shape, rules, limits) {}

  [[nodiscard]] std::uint64_t bytes() const override { return map_.shape().bytes; }
  [[nodiscard]] Fabric& fabric() override { return map_.fabric(); }
  [[nodiscard]] std::unique_ptr<IoContext> open_io() override;
  [[nodiscard]] SlabMap& slabs() noexcept { return map_; }

 private:
  SlabMap map_;
};

class StripedIo final : public IoContext {
 public:
  explicit StripedIo(SlabMap& map);
  [[nodiscard]] Status read(std::span<const Transfer> list, Deadline deadline) override;
  [[nodiscard]] Status write(std::span<const Transfer> list, Deadline deadline) override;
  [[nodiscard]] Status discard(std::uint64_t offset, std::uint64_t bytes, Deadline deadline) override;

 private:
  /// The result of one attempt at a list; `again` when a node turned out to be lost.
  enum class Attempt : std::uint8_t { done, timed_out, lost, again };

  enum class For : std::uint8_t { reading, writing };
  [[nodiscard]] bool hold(For what, Deadline deadline);
  void let_go(std::size_t held);
  void give_up();
  [[nodiscard]] bool settle(Deadline deadline);
  [[nodiscard]] Status provide(Deadline deadline);
  [[nodiscard]] const Copy* choose(const Place& place) const;
  [[nodiscard]] Attempt try_read(std::span<const Transfer> list, Duration limit, Deadline deadline);
  [[nodiscard]] Attempt try_write(std::span<const Transfer> list, Status provided, Deadline deadline);
  [[nodiscard]] Attempt flush(Deadline deadline);
  [[nodiscard]] std::optional<Transfer> zeros_around(std::span<const Transfer> list) const;
  [[nodiscard]] Status fill(const Transfer& block, Deadline deadline);
  [[nodiscard]] bool fill_once(const Transfer& block, Deadline deadline);
  [[nodiscard]] Status discard_part(std::uint64_t slab, std::uint64_t begin, std::uint64_t end, Deadline deadline);
  [[nodiscard]] Status write_zeros(std::uint64_t slab, std::uint64_t begin, std::uint64_t end, Deadline deadline);

  /// About the pieces of a list that is read.
  struct Asked {
    bool lost = false;
    bool has_other = false;  ///< there is another copy of something
  };
  void ask(Batch& batch, std::uint64_t slab, std::uint64_t offset, LocalSpan local, Asked& asked) const;

  /// Calls `act(slab, offset in it, local)` for each piece of `list` that lies in one slab.
  template <class Act>
  void for_each_piece(std::span<const Transfer> list, Act act) const;

  SlabMap& map_;
  std::unique_ptr<Channel> channel_;
  std::vector<std::uint64_t> slabs_;  ///< of the present list, in order, each once
  std::vector<LentMemory*> written_;  ///< nodes that the present list was written to
  bool gave_up_ = false;              ///< a write, and does not know yet that it is over
};

}  // namespace farside::far
