#include "tests/support/mesh.h"

#include "tests/support/hosts.h"

namespace farside::test {

std::unique_ptr<Fabric> make_fabric_under_test(const Member& me) {
  Hosts::enter(me.index() % 2);
  return make_host_fabric({.mode = fabric_mode_from_environment(), .remote_peers = Hosts::wanted()});
}

Mesh make_mesh(Member& me, std::uint64_t bytes) {
  Mesh mesh;
  mesh.fabric = make_fabric_under_test(me);
  mesh.local = mesh.fabric->create_region("mesh " + std::to_string(me.index()), bytes);
  mesh.channel = mesh.fabric->open_channel();
  const std::vector<std::string> addresses = me.exchange(mesh.fabric->address());
  const std::vector<std::string> handles = me.exchange(mesh.local->handle());
  for (PeerId peer = 0; peer < me.count(); ++peer) {
    mesh.fabric->connect(peer, addresses[peer]);
    mesh.remotes.push_back(mesh.fabric->attach(peer, handles[peer]));
  }
  me.barrier();  // from here on all members may use all regions
  return mesh;
}

}  // namespace farside::test
