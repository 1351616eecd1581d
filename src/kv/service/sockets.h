// sockets.h — where the servers of a pool listen: by names in its runtime directory that both sides know.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "kv/protocol/key_id.h"

namespace farside::kv {

[[nodiscard]] std::filesystem::path server_socket(const std::filesystem::path& pool, ServerNumber server);
[[nodiscard]] std::filesystem::path standby_socket(const std::filesystem::path& pool, ServerNumber server);
/// Of a server or a standby.
[[nodiscard]] bool is_server_socket(const std::string& name);
/// Those that are there.
[[nodiscard]] std::vector<std::string> server_sockets(const std::filesystem::path& pool);

}  // namespace farside::kv
