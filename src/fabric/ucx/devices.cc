#include "fabric/ucx/devices.h"

#include <array>
#include <filesystem>
#include <memory>

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <ucp/api/ucp.h>
#include <uct/api/uct.h>

#include "farside/base/error.h"

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

// Empty when it is of no family that has addresses of hosts.
std::string text_of(const sockaddr* address) {
  if (address == nullptr || (address->sa_family != AF_INET && address->sa_family != AF_INET6)) return {};
  const socklen_t length = address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  std::array<char, NI_MAXHOST> text{};
  if (::getnameinfo(address, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) return {};
  return text.data();
}

std::string interface_of(const std::string& address) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) throw errno_error("list", "the network interfaces of this host");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owned(list, &::freeifaddrs);
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (text_of(each->ifa_addr) != address) continue;
    const std::string name = each->ifa_name;
    return name.substr(0, name.find(':'));  // without the label of one of several addresses
  }
  throw Error({"find the network interface with", address, "this host has none",
               "name the devices for the pool's data by UCX_NET_DEVICES (ucx_info -d lists them)"});
}

std::string with_rdma_ports(std::string devices) {
  namespace fs = std::filesystem;
  std::error_code none;  // where there is no such directory
  for (const auto& nic : fs::directory_iterator("/sys/class/infiniband", none)) {
    for (const auto& port : fs::directory_iterator(nic.path() / "ports", none)) {
      devices += "," + nic.path().filename().string() + ":" + port.path().filename().string();
    }
  }
  return devices;
}

}  // namespace

std::string devices_of_network(const std::string& address) { return with_rdma_ports(interface_of(address)); }

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
