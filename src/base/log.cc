#include "farside/base/log.h"

#include <cstdlib>
#include <string>

#include <spdlog/cfg/helpers.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace farside::log {

namespace {

spdlog::logger& logger() {
  static const auto instance = [] {
    auto created = spdlog::stderr_logger_mt("farside");
    created->set_pattern("farside: %l: %v");
    const char* level = ::secure_getenv("FARSIDE_LOG");
    created->set_level(level == nullptr ? spdlog::level::warn : spdlog::level::from_str(level));
    return created;
  }();
  return *instance;
}

}  // namespace

void debug(std::string_view line) { logger().debug("{}", line); }
void info(std::string_view line) { logger().info("{}", line); }
void warn(std::string_view line) { logger().warn("{}", line); }
void error(std::string_view line) { logger().error("{}", line); }

void set_prefix(std::string_view prefix) { logger().set_pattern("farside: " + std::string(prefix) + ": %l: %v"); }

}  // namespace farside::log
