// spilled_space.h — a space on nodes of which a file on this machine has a copy.
//
// Guarantee: what a write reported done is found by every read that begins later, whichever nodes are lost. It is done
// when it is in a node's memory and queued for the file.
//
// A slab is in the pool, or, when some of it was found to be lost, or no node had room for it, or the node that has it
// does not answer, in the file alone: then it is put into the pool again as soon as there is room. The file has the
// newest of both.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "farside/base/rounding.h"
#include "farside/far/space.h"

#include "far/spill/slab_states.h"
#include "far/spill/spill_file.h"

namespace farside::far {

/// A pool's knowledge of nodes that do not answer.
struct Unresponsive {
  std::function<bool(std::uint64_t slab)> has = [](std::uint64_t) { return false; };  ///< such a one alone has it
  /// It is on no node, and such a one may have room for it.
  std::function<bool(std::uint64_t slab)> may_have_room = [](std::uint64_t) { return false; };
};

/// The state that the I/O contexts of a space share.
struct Spill {
  Spill(std::unique_ptr<Space> space, std::uint64_t bytes_of_slab, const std::filesystem::path& path,
        Unresponsive of_pool, std::size_t queue_bytes)
      : pool(std::move(space)),
        slab_bytes(bytes_of_slab),
        unresponsive(std::move(of_pool)),
        file(path, pool->bytes(), queue_bytes),
        states(div_ceil(pool->bytes(), slab_bytes)) {}

  const std::unique_ptr<Space> pool;
  const std::uint64_t slab_bytes;  ///< that the pool loses as a whole
  const Unresponsive unresponsive;
  SpillFile file;
  SlabStates states;
  std::atomic<SpillFile::Clock::time_point> next_try{};  ///< to put what is in the file into the pool again
};

class SpilledSpace final : public Space {
 public:
  /// Makes `file`. Throws Error.
  SpilledSpace(std::unique_ptr<Space> pool, std::uint64_t slab_bytes, const std::filesystem::path& file,
               Unresponsive unresponsive = {}, std::size_t queue_bytes = SpillFile::kQueueBytes);

  [[nodiscard]] std::uint64_t bytes() const override { return spill_.pool->bytes(); }
  [[nodiscard]] Fabric& fabric() override { return spill_.pool->fabric(); }
  [[nodiscard]] std::unique_ptr<IoContext> open_io() override;

 private:
  Spill spill_;
};

class SpilledIo final : public IoContext {
 public:
  explicit SpilledIo(Spill& spill);

  [[nodiscard]] Status read(std::span<const Transfer> list, Deadline deadline) override;
  [[nodiscard]] Status write(std::span<const Transfer> list, Deadline deadline) override;
  [[nodiscard]] Status discard(std::uint64_t offset, std::uint64_t bytes, Deadline deadline) override;

 private:
  using Clock = SpillFile::Clock;

  [[nodiscard]] Clock::time_point clock_of(Deadline deadline) const;
  void collect_pieces(std::span<const Transfer> list, std::uint64_t slab);

  /// Does `on_pool` or `on_file` with the pieces of `list`, slab by slab, wherever each is.
  template <class OnPool, class OnFile>
  [[nodiscard]] Status slab_by_slab(std::span<const Transfer> list, Deadline deadline, OnPool on_pool, OnFile on_file);
  template <class OnPool, class OnFile>
  [[nodiscard]] Status at_slab(std::uint64_t slab, Deadline deadline, OnPool on_pool, OnFile on_file);

  /// Tries the pool, with more time each time. Returns lost when nodes that do not answer are all that it waits for.
  template <class Try>
  [[nodiscard]] Status try_pool(std::span<const std::uint64_t> slabs, Deadline deadline, Try try_it);
  [[nodiscard]] Status read_pool(std::span<const std::uint64_t> slabs, std::span<const Transfer> list,
                                 Deadline deadline);
  [[nodiscard]] Status write_pool(std::span<const std::uint64_t> slabs, std::span<const Transfer> list,
                                  Deadline deadline);
  [[nodiscard]] Status discard_pool(std::uint64_t slab, std::uint64_t offset, std::uint64_t bytes, Deadline deadline);
  /// For the result of a call that writes to the pool.
  [[nodiscard]] Status renewing(Status status);
  [[nodiscard]] bool waits_for_unresponsive(std::uint64_t slab) const {
    return spill_.unresponsive.has(slab) || spill_.unresponsive.may_have_room(slab);
  }

  [[nodiscard]] Status put(std::span<const Transfer> list, Deadline deadline);
  [[nodiscard]] Status take(std::span<const Transfer> list, Deadline deadline);
  [[nodiscard]] Status discard_whole(std::uint64_t slab, Deadline deadline);

  [[nodiscard]] Status leave_to_file(std::uint64_t slab, Deadline deadline);
  void bring_back(std::uint64_t slab, Deadline deadline);
  [[nodiscard]] Status fill(std::uint64_t slab, Deadline deadline);
  [[nodiscard]] std::uint64_t bytes_of(std::uint64_t slab) const;

  Spill& spill_;
  std::unique_ptr<IoContext> pool_;
  std::vector<std::uint64_t> slabs_;  ///< of the present list, in order, each once
  std::vector<Transfer> pieces_;      ///< of it, in one slab
  std::vector<std::byte> carried_;
};

}  // namespace farside::far
