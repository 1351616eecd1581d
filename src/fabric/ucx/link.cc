#include "fabric/ucx/link.h"

#include "farside/base/log.h"

namespace farside {

ucp_rkey_h UcxChannel::Link::key_of(const std::shared_ptr<const UcxRemoteMemory>& memory) {
  const auto found = keys.find(memory.get());
  if (found != keys.end()) return found->second.key.get();
  std::erase_if(keys, [](const auto& entry) { return entry.second.memory.expired(); });
  ucp_rkey_h key = nullptr;
  const ucs_status_t status = ucp_ep_rkey_unpack(endpoint.get(), memory->packed_key.data(), &key);
  if (status != UCS_OK) {
    log::warn(std::string("cannot use a remote key of UCX: ") + ucs_status_string(status));
    return nullptr;
  }
  keys.emplace(memory.get(), UnpackedKey{memory, UcxKey(key)});
  return key;
}

}  // namespace farside
