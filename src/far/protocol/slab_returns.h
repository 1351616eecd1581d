// slab_returns.h — how slabs go back to their nodes, also to nodes that do not answer.
//
// Guarantee: a slab is asked to be taken back once for each time that it was taken. Once more only when nothing of the
// request before can land any more, and the slab is still as it was: else it could be taken by this client anew, and go
// back while it is in use.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "farside/fabric/fabric.h"

#include "base/mutex.h"
#include "far/protocol/lent_memory.h"

namespace farside::far {

struct Copy {
  LentMemory* node = nullptr;  ///< null: there is none
  SlabNumber slab = 0;

  [[nodiscard]] bool lives() const { return node != nullptr && !node->lost(); }
};

/// Thread safety: give_back from any thread.
class SlabReturns {
 public:
  explicit SlabReturns(Fabric& fabric) : fabric_(fabric) {}

  /// Later, to a node that did not answer the last time: else a discard would wait for it slab by slab.
  void give_back(const Copy& copy);
  /// Gives back what nodes did not confirm, or were not asked to take, and answer now. For one thread.
  void settle(std::span<LentMemory* const> living, Channel& channel);

 private:
  struct Request {
    Copy copy;
    std::uint64_t takes;               ///< of it, when it was given back
    std::unique_ptr<Channel> channel;  ///< that it was posted through: its flush alone says that it is over
  };

  [[nodiscard]] bool is_silent(const LentMemory* node) const;
  [[nodiscard]] std::unique_ptr<Channel> take_channel();
  void ask(const Copy& copy, std::unique_ptr<Channel> channel);
  void settle(Request request);
  [[nodiscard]] Outcome end(const Request& request, Deadline deadline) const;
  void keep(Request request);

  Fabric& fabric_;
  mutable Mutex mutex_;                                    // never held across a call of the fabric that waits
  std::set<const LentMemory*> silent_ GUARDED_BY(mutex_);  ///< did not confirm in time, and are not asked for now
  std::vector<Copy> debts_ GUARDED_BY(mutex_);             ///< they were not asked to take
  std::vector<Request> unconfirmed_ GUARDED_BY(mutex_);    ///< were not confirmed
  std::vector<std::unique_ptr<Channel>> idle_ GUARDED_BY(mutex_);
};

}  // namespace farside::far
