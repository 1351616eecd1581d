// etcd_store.h — records in etcd, over its JSON interface (etcd 3.4 and later: "gRPC gateway").
//
// Reads are linearizable, and each request asks for a member that knows a leader. Nothing is watched and no lease is
// taken: an event of etcd's is never the reason for a decision (pool.md, rule 8).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "authority/etcd_address.h"
#include "authority/http_client.h"
#include "authority/record_store.h"

namespace farside::authority {

class EtcdStore final : public RecordStore {
 public:
  /// Asks no server yet. Throws Error when a file that `address` names cannot be read.
  explicit EtcdStore(EtcdAddress address);

  [[nodiscard]] std::optional<std::vector<Record>> read(const KeyRange& range) override;
  Commit commit(std::span<const Condition> conditions, std::span<const Record> written,
                std::span<const KeyRange> removed) override;

  [[nodiscard]] std::string why() const override { return why_; }
  [[nodiscard]] std::string name() const override { return address_.text(); }

 private:
  using Clock = std::chrono::steady_clock;
  using Json = nlohmann::json;

  /// The member that answered last is asked first. None: no member did, or the answer is an error.
  [[nodiscard]] std::optional<Json> ask(const std::string& path, const Json& request);
  [[nodiscard]] std::optional<Json> ask_member(const std::string& member, const std::string& path,
                                               const std::string& request);
  [[nodiscard]] std::optional<Json> post(const std::string& member, const std::string& path,
                                         const std::string& request);
  /// Has a token, if the servers ask for a password.
  [[nodiscard]] bool authenticate(const std::string& member);
  [[nodiscard]] std::chrono::milliseconds left() const;
  std::nullopt_t fail(const std::string& member, const std::string& why);

  const EtcdAddress address_;
  HttpClient client_;
  Clock::time_point deadline_{};  ///< of the present question
  std::size_t member_ = 0;        ///< that answered last
  std::string token_;
  bool is_token_refused_ = false;
  std::string why_ = "it was not asked yet";
};

}  // namespace farside::authority
