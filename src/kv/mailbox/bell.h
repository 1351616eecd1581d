// bell.h — what wakes a server that sleeps: an AtomicWord of its memory, which clients advance.
//
// Thread safety: one thread at a time, that of the channel.
//
// Stands alone: inboxes of memory and of messages are woken by it.
#pragma once

#include <cstdint>

#include "farside/fabric/fabric.h"

namespace farside::kv {

class Bell {
 public:
  Bell(Fabric& fabric, Channel& channel, const Region& bells, std::uint64_t offset)
      : fabric_(fabric), channel_(channel), bells_(bells), word_(bells.word<AtomicWord>(offset)) {}

  /// How often it was rung.
  [[nodiscard]] std::uint64_t rung() const { return word_.load(); }
  /// Sleeps until it has been rung since `before`, at most `pause`. Whatever ends that, there may be something.
  void await_more_than(std::uint64_t before, Duration pause) const {
    const auto is_rung = [before](std::uint64_t now) { return now != before; };
    (void)channel_.wait_until(bells_, word_, is_rung, fabric_.in(pause));
  }

 private:
  Fabric& fabric_;
  Channel& channel_;
  const Region& bells_;
  const LocalWord<AtomicWord> word_;
};

}  // namespace farside::kv
