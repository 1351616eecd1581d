#include "node/pool/pool_directory.h"

#include <cerrno>
#include <charconv>
#include <fstream>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <nlohmann/json.hpp>

#include "farside/base/error.h"
#include "farside/cache/node_socket.h"

#include "far/service/link_messages.h"
#include "kv/service/link_messages.h"
#include "node/time_limits.h"
#include "service/service_socket.h"

namespace farside::node {

namespace {

constexpr std::string_view kNodeName = "node";

constexpr std::string_view kRecovered = ".recovered";
constexpr std::string_view kSocket = ".sock";
constexpr std::string_view kLock = ".lock";

// Returns the rank of the node whose lock has that name.
std::optional<team::Rank> rank_of_lock(std::string_view name) {
  if (!name.ends_with(kLock)) return std::nullopt;
  name.remove_suffix(kLock.size());
  if (!service::is_service_socket(std::string(name).append(kSocket), kNodeName)) return std::nullopt;
  name.remove_prefix(kNodeName.size() + 1);
  team::Rank rank = 0;
  const auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), rank);
  return code == std::errc{} && end == name.data() + name.size() ? std::optional(rank) : std::nullopt;
}

// Whether it is a file beside a socket of the service.
bool is_beside_socket(std::string_view name, std::string_view service, std::string_view suffix) {
  if (!name.ends_with(suffix)) return false;
  name.remove_suffix(suffix.size());
  return service::is_service_socket(std::string(name), service);
}

// Renamed into place once it is whole, so that no reader meets a part of it.
void replace_file(const std::filesystem::path& path, const std::string& line) {
  const std::filesystem::path draft = path.native() + ".new";
  std::ofstream file(draft);
  file << line << '\n';
  file.close();
  if (!file) throw errno_error("write", draft, "make room in the runtime directory");
  if (::rename(draft.c_str(), path.c_str()) != 0) throw errno_error("replace", path);
}

bool belongs_to_pool(const std::string& name) {
  return name == "pool.json" || name == "pool.json.new" || name == "decisions.new" || name == "coordinator.sock" ||
         name == "secret" || name == "meeting" || name == "meeting.new" || name == "decisions.copy.new" ||
         name == "decisions-here" || name == "decisions-here.new" || rank_of_lock(name) ||
         service::is_service_socket(name, kNodeName) || service::is_service_socket(name, kv::kServiceName) ||
         service::is_service_socket(name, far::kServiceName) ||
         is_beside_socket(name, kNodeName, cache::node_socket::kSilenceSuffix) ||
         is_beside_socket(name, kv::kServiceName, kRecovered);
}

// The library would turn any number into any other, also a process's into that of another one.
template <class Number>
Number number_in(const nlohmann::json& object, const char* name) {
  const nlohmann::json& value = object.at(name);
  const bool fits = value.is_number_unsigned()  ? std::in_range<Number>(value.get<std::uint64_t>())
                    : value.is_number_integer() ? std::in_range<Number>(value.get<std::int64_t>())
                                                : false;
  if (!fits) throw std::out_of_range(std::string(name) + " cannot be " + value.dump());
  return value.get<Number>();
}

PoolRecord::Node node_in(const nlohmann::json& object) {
  return {.rank = number_in<team::Rank>(object, "rank"),
          .process = number_in<pid_t>(object, "process"),
          .restarts = number_in<std::uint32_t>(object, "restarts")};
}

}  // namespace

std::filesystem::path PoolDirectory::node_socket(team::Rank rank) const {
  return service::service_socket(path_, kNodeName, rank);
}

std::filesystem::path PoolDirectory::node_lock(team::Rank rank) const {
  return node_socket(rank).replace_extension(kLock);
}

std::vector<RunningNode> PoolDirectory::running_nodes() const {
  std::set<team::Rank> ranks;
  for (const auto& entry : std::filesystem::directory_iterator(path_)) {
    if (const auto rank = rank_of_lock(entry.path().filename().string())) ranks.insert(*rank);
  }
  std::vector<RunningNode> nodes;
  for (const team::Rank rank : ranks) {
    if (auto node = find_node(node_lock(rank), rank)) nodes.push_back(std::move(*node));
  }
  return nodes;
}

std::optional<FileLock> PoolDirectory::lock_within(std::chrono::milliseconds timeout) const {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    if (auto lock = try_lock()) return lock;
    if (std::chrono::steady_clock::now() > deadline) return std::nullopt;
    std::this_thread::sleep_for(node::time_limits::kLook);
  }
}

std::optional<FileLock> PoolDirectory::try_lock() const { return try_lock_as(FileLock::Kind::exclusive); }

bool PoolDirectory::is_locked() const { return !try_lock_as(FileLock::Kind::shared); }

std::optional<FileLock> PoolDirectory::try_lock_as(FileLock::Kind kind) const {
  Fd directory(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) throw errno_error("open the runtime directory", path_, "set FARSIDE_RUNTIME_DIR to one that you own");
  return FileLock::try_lock(std::move(directory), kind, "lock the runtime directory", path_,
                            "set FARSIDE_RUNTIME_DIR to one on a local file system");
}

std::optional<FileLock> PoolDirectory::lock_authority() const {
  std::filesystem::create_directories(authority());
  Fd directory(::open(authority().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) throw errno_error("open", authority());
  return FileLock::try_lock(std::move(directory), FileLock::Kind::exclusive, "lock", authority());
}

void PoolDirectory::write_record(const PoolRecord& record_now) const {
  nlohmann::json nodes = nlohmann::json::array();
  for (const PoolRecord::Node& node : record_now.nodes)
    nodes.push_back({{"rank", node.rank}, {"process", node.process}, {"restarts", node.restarts}});
  const nlohmann::json json{{"supervisor", record_now.supervisor},
                            {"nodes", nodes},
                            {"supervisor_started", record_now.supervisor_started},
                            {"options", record_now.options},
                            {"meeting", record_now.meeting},
                            {"cache_bytes", record_now.cache_bytes},
                            {"block_bytes", record_now.block_bytes},
                            {"groups", record_now.groups},
                            {"kv_bytes", record_now.kv_bytes},
                            {"kv_copies", record_now.kv_copies},
                            {"far_bytes", record_now.far_bytes}};
  replace_file(record(), json.dump(2));
}

void PoolDirectory::write_meeting(const std::string& address) const { replace_file(meeting(), address); }

std::optional<PoolRecord> PoolDirectory::read_record() const {
  std::ifstream file(record());
  if (!file) return std::nullopt;
  try {
    const nlohmann::json json = nlohmann::json::parse(file);
    PoolRecord result;
    result.supervisor = number_in<pid_t>(json, "supervisor");
    result.supervisor_started = number_in<std::uint64_t>(json, "supervisor_started");
    result.options = json.at("options").get<std::string>();
    result.meeting = json.at("meeting").get<std::string>();
    for (const nlohmann::json& node : json.at("nodes")) result.nodes.push_back(node_in(node));
    result.cache_bytes = number_in<std::uint64_t>(json, "cache_bytes");
    result.block_bytes = number_in<std::uint64_t>(json, "block_bytes");
    result.groups = number_in<std::uint32_t>(json, "groups");
    result.kv_bytes = number_in<std::uint64_t>(json, "kv_bytes");
    result.kv_copies = number_in<std::uint32_t>(json, "kv_copies");
    result.far_bytes = number_in<std::uint64_t>(json, "far_bytes");
    return result;
  } catch (const std::exception& error) {
    throw Error({"read", record(), error.what(), "end the pool with farside down, or remove the file"});
  }
}

std::filesystem::path PoolDirectory::recovered(team::Rank rank) const {
  return service::service_socket(path_, kv::kServiceName, rank).concat(kRecovered);
}

void PoolDirectory::write_recovered(team::Rank rank, std::uint64_t bytes) const {
  std::ofstream file(recovered(rank));
  file << bytes << '\n';
  file.close();
  if (!file) throw errno_error("write", recovered(rank), "make room in the runtime directory");
}

std::uint64_t PoolDirectory::read_recovered(team::Rank rank) const {
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

bool PoolDirectory::forget_team() const { return std::filesystem::remove(decisions()); }

void PoolDirectory::forget_copy() const { std::filesystem::remove(decisions_copy()); }

void PoolDirectory::keep_log() const {
  const std::filesystem::path before = log().concat(".1");
  if (::rename(log().c_str(), before.c_str()) != 0 && errno != ENOENT) throw errno_error("replace", before);
}

void PoolDirectory::drop_log() const {
  std::error_code ignored;  // its place is taken by the next pool's
  std::filesystem::remove(log(), ignored);
}

}  // namespace farside::node
