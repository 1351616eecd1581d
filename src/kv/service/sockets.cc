#include "kv/service/sockets.h"

#include <algorithm>
#include <system_error>

namespace farside::kv {

namespace {

constexpr std::string_view kBegin = "kv-";
constexpr std::string_view kEnd = ".sock";

}  // namespace

std::filesystem::path server_socket(const std::filesystem::path& pool, ServerNumber server) {
  return pool / (std::string(kBegin) + std::to_string(server) + std::string(kEnd));
}

std::filesystem::path standby_socket(const std::filesystem::path& pool, ServerNumber server) {
  return pool / (std::string(kBegin) + std::to_string(server) + "-standby" + std::string(kEnd));
}

bool is_server_socket(const std::string& name) { return name.starts_with(kBegin) && name.ends_with(kEnd); }

std::vector<std::string> server_sockets(const std::filesystem::path& pool) {
  std::vector<std::string> sockets;
  std::error_code none;  // no directory: no sockets
  for (const auto& entry : std::filesystem::directory_iterator(pool, none)) {
    if (is_server_socket(entry.path().filename())) sockets.push_back(entry.path());
  }
  std::ranges::sort(sockets);
  return sockets;
}

}  // namespace farside::kv
