#include "node/pool_directory.h"

#include <cerrno>
#include <fstream>
#include <string>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/file.h>

#include "farside/base/error.h"
#include "farside/cache/host_door.h"

#include "far/service/link_messages.h"
#include "kv/service/link_messages.h"
#include "team/service_socket.h"

namespace farside {

namespace {

constexpr std::string_view kDoor = "node";

constexpr std::string_view kRecovered = ".recovered";

// Whether it is a file beside a socket of the service.
bool is_beside_socket(std::string_view name, std::string_view service, std::string_view suffix) {
  if (!name.ends_with(suffix)) return false;
  name.remove_suffix(suffix.size());
  return is_service_socket(std::string(name), service);
}

bool belongs_to_pool(const std::string& name) {
  return name == "pool.json" || name == "pool.json.new" || name == "coordinator.sock" || name == "secret" ||
         is_service_socket(name, kDoor) || is_service_socket(name, kv::kServiceName) ||
         is_service_socket(name, far::kServiceName) || is_beside_socket(name, kDoor, door::kSilenceSuffix) ||
         is_beside_socket(name, kv::kServiceName, kRecovered);
}

}  // namespace

std::filesystem::path PoolDirectory::door(Rank rank) const { return service_socket(path_, kDoor, rank); }

std::optional<Fd> PoolDirectory::try_lock() const {
  Fd directory(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) throw errno_error("open the runtime directory", path_, "set FARSIDE_RUNTIME_DIR to one that you own");
  if (::flock(directory.get(), LOCK_EX | LOCK_NB) == 0) return directory;
  if (errno == EWOULDBLOCK) return std::nullopt;
  throw errno_error("lock the runtime directory", path_, "set FARSIDE_RUNTIME_DIR to one on a local file system");
}

void PoolDirectory::write_record(const PoolRecord& record_now) const {
  nlohmann::json nodes = nlohmann::json::array();
  for (const PoolRecord::Node& node : record_now.nodes)
    nodes.push_back({{"rank", node.rank}, {"process", node.process}, {"restarts", node.restarts}});
  const nlohmann::json json{{"supervisor", record_now.supervisor},   {"nodes", nodes},
                            {"cache_bytes", record_now.cache_bytes}, {"block_bytes", record_now.block_bytes},
                            {"groups", record_now.groups},           {"kv_bytes", record_now.kv_bytes},
                            {"kv_copies", record_now.kv_copies},     {"far_bytes", record_now.far_bytes}};
  // Renamed into place once it is whole, so that no reader meets a part of it.
  const std::filesystem::path draft = path_ / "pool.json.new";
  std::ofstream file(draft);
  file << json.dump(2) << '\n';
  file.close();
  if (!file) throw errno_error("write", draft, "make room in the runtime directory");
  if (::rename(draft.c_str(), record().c_str()) != 0) throw errno_error("replace", record());
}

std::optional<PoolRecord> PoolDirectory::read_record() const {
  std::ifstream file(record());
  if (!file) return std::nullopt;
  try {
    const nlohmann::json json = nlohmann::json::parse(file);
    PoolRecord result;
    result.supervisor = json.at("supervisor");
    for (const nlohmann::json& node : json.at("nodes")) {
      result.nodes.push_back({node.at("rank"), node.at("process"), node.at("restarts")});
    }
    result.cache_bytes = json.at("cache_bytes");
    result.block_bytes = json.at("block_bytes");
    result.groups = json.at("groups");
    result.kv_bytes = json.at("kv_bytes");
    result.kv_copies = json.at("kv_copies");
    result.far_bytes = json.at("far_bytes");
    return result;
  } catch (const nlohmann::json::exception& error) {
    throw Error({"read", record(), error.what(), "end the pool with farside down, or remove the file"});
  }
}

std::filesystem::path PoolDirectory::recovered(Rank rank) const {
  return service_socket(path_, kv::kServiceName, rank).concat(kRecovered);
}

void PoolDirectory::write_recovered(Rank rank, std::uint64_t bytes) const {
  std::ofstream file(recovered(rank));
  file << bytes << '\n';
  file.close();
  if (!file) throw errno_error("write", recovered(rank), "make room in the runtime directory");
}

std::uint64_t PoolDirectory::read_recovered(Rank rank) const {
  std::uint64_t bytes = 0;
  std::ifstream(recovered(rank)) >> bytes;
  return bytes;
}

bool PoolDirectory::clean() const {
  bool found = false;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(path_)) {
    if (belongs_to_pool(entry.path().filename())) files.push_back(entry.path());
  }
  for (const std::filesystem::path& file : files) found |= std::filesystem::remove(file);
  std::error_code missing;
  if (std::filesystem::file_size(log(), missing) == 0) drop_log();
  return found;
}

void PoolDirectory::keep_log() const {
  const std::filesystem::path before = log().concat(".1");
  if (::rename(log().c_str(), before.c_str()) != 0 && errno != ENOENT) throw errno_error("replace", before);
}

void PoolDirectory::drop_log() const {
  std::error_code ignored;  // its place is taken by the next pool's
  std::filesystem::remove(log(), ignored);
}

}  // namespace farside
