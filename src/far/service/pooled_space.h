// pooled_space.h — a space on the nodes of a pool, and what keeps it going: a thread that sleeps until a node is lost,
// repairs what lay there, and takes in those that come back; and one that finds nodes that do not answer. The log says
// which those are, when memory has a single copy, and when it is mirrored again.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "base/metrics.h"
#include "base/mutex.h"
#include "far/protocol/lender_watch.h"
#include "far/protocol/striped_space.h"
#include "far/service/pool_nodes.h"
#include "far/spill/spilled_space.h"

namespace farside::far {

class PooledSpace final : public Space {
 public:
  /// Links those that answer. Throws Error when none does.
  /// With `has_file` what nodes lose is elsewhere, and not told.
  PooledSpace(std::unique_ptr<PoolNodes> nodes, std::uint64_t bytes, std::uint32_t copies, bool has_file,
              net::SetupClock::time_point deadline);
  ~PooledSpace() override;

  [[nodiscard]] std::uint64_t bytes() const override { return space_->bytes(); }
  [[nodiscard]] Fabric& fabric() override { return nodes_->fabric(); }
  [[nodiscard]] std::unique_ptr<IoContext> open_io() override { return space_->open_io(); }

  /// The unit of loss: memory on a lost node is lost in pieces of so many bytes.
  [[nodiscard]] std::uint64_t slab_bytes() const { return space_->slabs().shape().slab_bytes; }
  /// Knowledge of nodes that do not answer. Requires: it is not asked when this has gone.
  [[nodiscard]] Unresponsive unresponsive() const;
  /// So much may be written on the nodes that are linked.
  [[nodiscard]] std::uint64_t room_bytes(Deadline deadline);

 private:
  /// Wakes the thread that tends the space, when a loss is noticed; outlives this, if need be.
  struct Alarm {
    Mutex mutex;
    std::condition_variable_any changed;
    bool rung GUARDED_BY(mutex) = false;

    void ring();
  };
  /// When a node that is not linked is tried again.
  using Tries = std::map<std::uint32_t, net::SetupClock::time_point>;

  [[nodiscard]] std::unique_ptr<LentMemory> link(std::uint32_t node, net::SetupClock::time_point deadline);
  /// Returns whether one came.
  bool link_new_nodes(Tries& tries);
  void tend(const std::stop_token& stop);
  void watch(const std::stop_token& stop);
  void tell(const LenderWatch::Event& event) const;
  void tell_losses() const;
  void tell_copies(CopyCounts& told);

  const bool has_file_;
  metrics::Counter fell_to_one_copy_{
      {"farside_far_single_copy_total", "Times that mirrored far memory came to have a single copy in part."}};
  metrics::Counter mirrored_again_{{"farside_far_mirrored_again_total",
                                    "Times that all of the far memory that had a single copy was mirrored again."}};
  const std::shared_ptr<Alarm> alarm_ = std::make_shared<Alarm>();
  const std::unique_ptr<PoolNodes> nodes_;
  std::unique_ptr<StripedSpace> space_;
  std::jthread tender_;
  std::jthread watcher_;
};

}  // namespace farside::far
