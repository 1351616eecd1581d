// session.h — how the commands on the key-value store come to it, and what they say when it fails them.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "farside/kv/client.h"

namespace farside::cli {

/// Options of every such command.
struct KvArguments {
  std::string time_out = "10s";
  std::string server;
  std::string secret;

  void add_to(CLI::App& command);
  [[nodiscard]] std::chrono::milliseconds limit() const;
  [[nodiscard]] kv::ClientOptions client() const;
  [[nodiscard]] kv::SessionOptions session() const;
  /// For a command that needs the servers of `keys` alone.
  [[nodiscard]] static kv::SessionOptions session_for(std::vector<std::string> keys);
};

/// Throw Error, naming what was `tried` ("put") and `on` what, unless it was done.
void expect_done(Outcome outcome, const std::string& tried, const std::string& on);
void expect_done(kv::PutOutcome outcome, const std::string& tried, const std::string& on);

}  // namespace farside::cli
