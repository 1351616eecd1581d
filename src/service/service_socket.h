// service_socket.h — where the services of a pool listen on its machine: by names in its runtime directory that both
// sides know, "<service>-<rank>.sock".
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace farside::service {

[[nodiscard]] std::filesystem::path service_socket(const std::filesystem::path& pool, std::string_view service,
                                                   std::uint32_t rank);
[[nodiscard]] bool is_service_socket(const std::string& name, std::string_view service);
/// Those of a service that are there.
[[nodiscard]] std::vector<std::string> service_sockets(const std::filesystem::path& pool, std::string_view service);

}  // namespace farside::service
