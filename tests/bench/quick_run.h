// quick_run.h — a benchmark as a user runs it, quick, and the JSON that it wrote.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace farside::bench {

/// Runs `farside bench NAME --quick` behind `environment` ("PATH=/bin").
inline nlohmann::json quick_run(const std::string& name, const std::string& environment = {}) {
  const auto folder = std::filesystem::path(testing::TempDir());
  const std::filesystem::path json = folder / ("bench-" + std::to_string(::getpid()) + ".json");
  const std::string command = environment + " " FARSIDE_COMMAND " bench " + name + " --quick --repetitions 1 --json ";
  EXPECT_EQ(std::system((command + json.string()).c_str()), 0);
  std::ifstream file(json);
  nlohmann::json document = nlohmann::json::parse(file);
  std::filesystem::remove(json);
  return document;
}

inline std::set<std::string> names(const nlohmann::json& document) {
  std::set<std::string> names;
  for (const nlohmann::json& row : document["results"]) names.insert(row["name"].get<std::string>());
  return names;
}

}  // namespace farside::bench
