// clients.h — the threads of a contender: each works off transactions through a client of its own, all at once.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/kv/question.h"

namespace farside::bench {

/// One thread's connection to a store. Every call is a transaction, and throws when it fails.
class KvClient {
 public:
  virtual ~KvClient() = default;
  KvClient(const KvClient&) = delete;
  KvClient& operator=(const KvClient&) = delete;

  /// All keys exist, with values of so many bytes.
  virtual void read(std::span<const std::string_view> keys, std::size_t value_bytes) = 0;
  virtual void write(std::span<const std::string_view> keys, std::string_view value) = 0;
  /// In one transaction, where the store can.
  virtual void modify(std::span<const std::string_view> keys, std::string_view value) {
    read(keys, value.size());
    write(keys, value);
  }

 protected:
  KvClient() = default;
};

class KvClients {
 public:
  /// The client of `thread` that reads in that way; the same one each time. Asked by one thread.
  using ClientOf = std::function<KvClient&(unsigned thread, const std::string& way)>;

  /// `servers`: the processes that serve.
  KvClients(ClientOf client_of, std::vector<int> servers)
      : client_of_(std::move(client_of)), servers_(std::move(servers)) {}

  /// Answers the questions on standard input until it ends.
  void answer_questions();

 private:
  void load(const KvQuestion& question);
  [[nodiscard]] KvFigures run(const KvQuestion& question);
  /// Nanoseconds.
  [[nodiscard]] double server_time() const;

  ClientOf client_of_;
  std::vector<int> servers_;
  std::set<std::uint64_t> loaded_;  // tables
};

}  // namespace farside::bench
