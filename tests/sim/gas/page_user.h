// page_user.h — what a thread of a simulated rank uses pages with.
#pragma once

#include "gas/protocol/mover.h"

namespace farside::sim {

struct PageUser {
  explicit PageUser(gas::PageMemory& pages) : memory(pages), accessor(pages), mover(accessor) {}

  gas::PageMemory& memory;
  gas::Accessor accessor;
  gas::Mover mover;
};

}  // namespace farside::sim
