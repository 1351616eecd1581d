// A project outside this repository: one process, its own memory, reached the way a peer's is.
#include <cstdio>

#include "farside/base/error.h"
#include "farside/base/units.h"
#include "farside/fabric/fabric.h"
#include "farside/kv/client.h"
#include "farside/kv/table.h"

namespace {

// There is no pool here: what a store's client says of that is all that can be tried.
bool misses_the_store() {
  try {
    farside::kv::Client client;
    return false;
  } catch (const farside::Error&) {
    return true;
  }
}

}  // namespace

int main() {
  const auto fabric = farside::make_host_fabric({});
  fabric->connect(0, fabric->address());
  const auto region = fabric->create_region("outside", farside::parse_bytes("4K", "the region"));
  const auto remote = fabric->attach(0, region->handle());
  const auto channel = fabric->open_channel();
  const farside::Deadline deadline = fabric->in(std::chrono::seconds(1));
  const auto old = channel->fetch_add(remote->word<farside::AtomicWord>(0), 42, deadline);
  if (!old.done() || region->word<farside::AtomicWord>(0).load() != 42) return 1;
  if (!misses_the_store()) return 1;
  std::puts("42 arrived");
  return 0;
}
