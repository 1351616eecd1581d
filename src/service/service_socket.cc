#include "service/service_socket.h"

#include <algorithm>
#include <system_error>

namespace farside::service {

namespace {

constexpr std::string_view kEnd = ".sock";

}  // namespace

std::filesystem::path service_socket(const std::filesystem::path& pool, std::string_view service, std::uint32_t rank) {
  return pool / (std::string(service) + "-" + std::to_string(rank) + std::string(kEnd));
}

bool is_service_socket(const std::string& name, std::string_view service) {
  return name.starts_with(std::string(service) + "-") && name.ends_with(kEnd);
}

std::vector<std::string> service_sockets(const std::filesystem::path& pool, std::string_view service) {
  std::vector<std::string> sockets;
  std::error_code none;  // no directory: no sockets
  for (const auto& entry : std::filesystem::directory_iterator(pool, none)) {
    if (is_service_socket(entry.path().filename(), service)) sockets.push_back(entry.path());
  }
  std::ranges::sort(sockets);
  return sockets;
}

}  // namespace farside::service
