// lender.h — a node's part: what it lends, which clients have it, and how it comes back.
//
// Guarantee: a slab that may be taken holds zeros, and no former holder can write to it any more.
//
// A client that gave a slab back has no operation unfinished there, and one that is gone has lost its access before its
// slabs are zeroed. So nothing can land in a slab between its zeroing and its next holder.
#pragma once

#include <cstdint>
#include <memory>

#include "farside/fabric/fabric.h"

#include "far/protocol/layout.h"
#include "far/protocol/rules.h"

namespace farside::far {

/// The machine's memory behind the slabs.
class Backing {
 public:
  virtual ~Backing() = default;
  Backing(const Backing&) = delete;
  Backing& operator=(const Backing&) = delete;

  /// Puts zeroed memory behind a slab that has none. False: the machine has none to spare.
  [[nodiscard]] virtual bool provide(SlabNumber slab) = 0;
  /// Gives a slab's memory back to the machine: it reads as zeros afterwards.
  virtual void take_back(SlabNumber slab) = 0;

 protected:
  Backing() = default;
};

struct LenderSettings {
  std::uint64_t slab_bytes = 4U << 20U;
  SlabNumber slabs = 0;
  SlabNumber stock = 8;  ///< so many slabs have memory behind them before a client asks
};

/// How a client went.
enum class Parting : std::uint8_t {
  gone,  ///< it may go on, for all we know
  left,  ///< it says that it has nothing mapped any more, and will not come back
};

/// For one thread, but for welcome.
class Lender {
 public:
  /// `table` has table_bytes(slabs), all zero; `self` is the loopback of `fabric`. No client knows `table` yet.
  Lender(Fabric& fabric, Channel& channel, const Region& table, PeerId self, Backing& backing,
         const LenderSettings& settings, const FarRules& rules = {});

  /// A number that no client of this node ever had. For any one thread.
  [[nodiscard]] Holder welcome() noexcept { return ++last_holder_; }
  /// Takes the access of `peer` away, which was welcomed as `holder`, and then what it holds. Not done: some of that is
  /// held still; call it again.
  Outcome end(Holder holder, PeerId peer, Parting parting, Deadline deadline);

  /// Takes in what was returned, and provides for the next client. False if there was nothing to do.
  bool step();
  /// Returns when a client rings the bell, or a while later.
  void rest(Deadline deadline);

 private:
  [[nodiscard]] SlabWord look(SlabNumber slab) const;
  [[nodiscard]] bool change(SlabNumber slab, SlabWord from, SlabWord to);
  bool take_in(SlabNumber slab, SlabWord word);
  void reclaim(Holder holder);
  bool provide(SlabNumber wanted);

  Fabric& fabric_;
  Channel& channel_;
  const Region& table_;
  const std::unique_ptr<RemoteRegion> own_;  ///< the table, through the loopback
  Backing& backing_;
  const LenderSettings settings_;
  const FarRules rules_;
  Holder last_holder_ = 0;
  std::uint64_t rung_ = 0;  ///< the bell when the table was last looked at
};

}  // namespace farside::far
