#include "fabric/ucx/devices.h"

#include <memory>

#include <ucp/api/ucp.h>
#include <uct/api/uct.h>

namespace farside {

namespace {

using Domain = std::unique_ptr<uct_md, decltype(&::uct_md_close)>;

// Null when it cannot be opened: its hardware is not there, or this user may not use it.
Domain open_domain(uct_component_h component, const char* name) {
  uct_md_config_t* config = nullptr;
  if (::uct_md_config_read(component, nullptr, nullptr, &config) != UCS_OK) return {nullptr, &::uct_md_close};
  uct_md_h domain = nullptr;
  const ucs_status_t status = ::uct_md_open(component, name, config, &domain);
  ::uct_config_release(config);
  return {status == UCS_OK ? domain : nullptr, &::uct_md_close};
}

void add_devices(const Domain& domain, std::vector<UcxDevice>& devices) {
  uct_tl_resource_desc_t* resources = nullptr;
  unsigned count = 0;
  if (::uct_md_query_tl_resources(domain.get(), &resources, &count) != UCS_OK) return;
  for (unsigned i = 0; i < count; ++i) {
    const uct_tl_resource_desc_t& resource = resources[i];
    devices.push_back({resource.tl_name, resource.dev_name, resource.dev_type == UCT_DEVICE_TYPE_NET});
  }
  ::uct_release_tl_resource_list(resources);
}

std::vector<uct_md_resource_desc_t> domains_of(uct_component_h component) {
  uct_component_attr_t attributes{};
  attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
  if (::uct_component_query(component, &attributes) != UCS_OK) return {};
  std::vector<uct_md_resource_desc_t> domains(attributes.md_resource_count);
  attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
  attributes.md_resources = domains.data();
  if (domains.empty() || ::uct_component_query(component, &attributes) != UCS_OK) return {};
  return domains;
}

}  // namespace

std::string ucx_version() { return ::ucp_get_version_string(); }

std::vector<UcxDevice> list_ucx_devices() {
  std::vector<UcxDevice> devices;
  uct_component_h* components = nullptr;
  unsigned count = 0;
  if (::uct_query_components(&components, &count) != UCS_OK) return devices;
  for (unsigned i = 0; i < count; ++i) {
    for (const uct_md_resource_desc_t& resource : domains_of(components[i])) {
      const Domain domain = open_domain(components[i], resource.md_name);
      if (domain) add_devices(domain, devices);
    }
  }
  ::uct_release_component_list(components);
  return devices;
}

}  // namespace farside
